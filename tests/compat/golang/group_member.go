package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// franz-go as a member of tests/compat/mixed_groups: lines of JSON on stdout, the word to leave on stdin.

type memberSettings struct {
	Bootstrap      string            `json:"bootstrap"`
	Group          string            `json:"group"`
	Topic          string            `json:"topic"`
	ClientID       string            `json:"client_id"`
	HeartbeatMs    int               `json:"heartbeat_ms"`
	SessionMs      int               `json:"session_ms"`
	PollIntervalMs int               `json:"poll_interval_ms"`
	More           map[string]string `json:"more"`
}

type groupMember struct {
	settings    memberSettings
	printing    sync.Mutex
	uncommitted map[int32]kgo.EpochOffset
}

func (m *groupMember) tell(event string, more map[string]any) {
	m.printing.Lock()
	defer m.printing.Unlock()
	line := map[string]any{"at": time.Now().UnixMilli(), "event": event}
	for name, value := range more {
		line[name] = value
	}
	_ = json.NewEncoder(os.Stdout).Encode(line)
}

func (m *groupMember) tellPartitions(event string, partitions map[string][]int32) {
	numbers := partitions[m.settings.Topic]
	if len(numbers) > 0 || event == "assigned" {
		m.tell(event, map[string]any{"partitions": append([]int32{}, numbers...)})
	}
}

func (m *groupMember) letGo(event string, partitions map[string][]int32) {
	for _, each := range partitions[m.settings.Topic] {
		delete(m.uncommitted, each)
	}
	m.tellPartitions(event, partitions)
}

func (m *groupMember) deliver(fetches kgo.Fetches) {
	spans := [][3]int64{}
	last := map[int32]int{}
	fetches.EachRecord(func(r *kgo.Record) {
		if string(r.Value) != strconv.FormatInt(r.Offset, 10) {
			m.tell("garbled", map[string]any{"why": fmt.Sprintf("%q at offset %d of %d", r.Value, r.Offset, r.Partition)})
		}
		at, known := last[r.Partition]
		if !known || spans[at][2] != r.Offset {
			spans = append(spans, [3]int64{int64(r.Partition), r.Offset, r.Offset})
			at = len(spans) - 1
			last[r.Partition] = at
		}
		spans[at][2] = r.Offset + 1
		m.uncommitted[r.Partition] = kgo.EpochOffset{Epoch: r.LeaderEpoch, Offset: r.Offset + 1}
	})
	if len(spans) > 0 {
		m.tell("records", map[string]any{"spans": spans})
	}
}

func (m *groupMember) commit(c *kgo.Client) {
	if len(m.uncommitted) == 0 {
		return
	}
	began := time.Now().UnixMilli()
	offsets, places := [][2]int64{}, map[int32]kgo.EpochOffset{}
	for partition, place := range m.uncommitted {
		offsets = append(offsets, [2]int64{int64(partition), place.Offset})
		places[partition] = place
	}
	if err := m.commitNow(c, places); err != nil {
		m.tell("refused", map[string]any{"why": err.Error()})
		return
	}
	m.tell("committed", map[string]any{"began": began, "offsets": offsets})
	clear(m.uncommitted)
}

func (m *groupMember) commitNow(c *kgo.Client, places map[int32]kgo.EpochOffset) (refusal error) {
	ctx, done := context.WithTimeout(context.Background(), waitTime)
	defer done()
	offsets := map[string]map[int32]kgo.EpochOffset{m.settings.Topic: places}
	c.CommitOffsetsSync(ctx, offsets, func(
		_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error,
	) {
		if refusal = err; err != nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				if err := kerr.ErrorForCode(partition.ErrorCode); err != nil {
					refusal = err
				}
			}
		}
	})
	return refusal
}

func (m *groupMember) run() error {
	lines := bufio.NewReader(os.Stdin)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = lines.ReadString('\n') // `close`, or the end
		cancel()
	}()
	c, err := kgo.NewClient(m.options()...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		// Rebalances wait until a poll's records are told and committed.
		wait, done := context.WithTimeout(ctx, 100*time.Millisecond)
		fetches := c.PollRecords(wait, 500)
		done()
		m.deliver(fetches)
		m.commit(c)
		c.AllowRebalance()
	}
	c.CloseAllowingRebalance()
	m.tell("closed", nil)
	return nil
}

func (m *groupMember) options() []kgo.Opt {
	given := m.settings
	options := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...), kgo.ClientID(given.ClientID), kgo.ConsumerGroup(given.Group),
		kgo.ConsumeTopics(given.Topic), kgo.DisableAutoCommit(), kgo.BlockRebalanceOnPoll(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchMaxWait(200 * time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(given.HeartbeatMs) * time.Millisecond),
		kgo.SessionTimeout(time.Duration(given.SessionMs) * time.Millisecond),
		kgo.RebalanceTimeout(time.Duration(given.PollIntervalMs) * time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.tellPartitions("assigned", partitions)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, c *kgo.Client, partitions map[string][]int32) {
			m.commit(c)
			m.letGo("revoked", partitions)
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			m.letGo("lost", partitions)
		}),
	}
	switch given.More["assignor"] {
	case "cooperative-sticky":
		return append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case "range":
		return append(options, kgo.Balancers(kgo.RangeBalancer()))
	}
	return append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()), kgo.ServerSideBalancer())
}

func runGroupMember(settings string) error {
	m := &groupMember{uncommitted: map[int32]kgo.EpochOffset{}}
	if err := json.Unmarshal([]byte(settings), &m.settings); err != nil {
		return err
	}
	return m.run()
}
