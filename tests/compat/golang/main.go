// Go clients behind the face of tests/compat/clients: calls as JSON lines on stdin, one answer a line on stdout.
//
// Usage: clients franz|sarama|kafka-go HOST:PORT      (COMPAT_SECURITY: see security.go)
//
//	clients member SETTINGS      (see group_member.go)
//	clients copier SETTINGS      (see copier.go)
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
)

const waitTime = 60 * time.Second

// record is face.Record; nil bytes are null in JSON, others base64.
type record struct {
	Partition   int32    `json:"partition"`
	Offset      int64    `json:"offset"`
	TimestampMs int64    `json:"timestamp_ms"`
	Key         []byte   `json:"key"`
	Value       []byte   `json:"value"`
	Headers     []header `json:"headers"`
}

type header struct {
	Name  string
	Value []byte
}

func (h header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

func (h *header) UnmarshalJSON(data []byte) error {
	return json.Unmarshal(data, &[]any{&h.Name, &h.Value})
}

// span is a partition with the first offset wanted and the one after the last.
type span [3]int64

type place struct {
	Leader   int32   `json:"leader"`
	Replicas []int32 `json:"replicas"`
	Isr      []int32 `json:"isr"`
}

type groupState struct {
	State   string `json:"state"`
	Members int    `json:"members"`
}

type clusterState struct {
	Controller int32    `json:"controller"`
	Brokers    [][3]any `json:"brokers"`
}

type client interface {
	produce(ctx context.Context, topic string, records []record, codec string) ([]int64, error)
	consume(ctx context.Context, topic string, spans []span) ([]record, error)
	offsetsForTime(ctx context.Context, topic string, timestampMs int64) (map[int32]int64, error)
	bounds(ctx context.Context, topic string) (map[int32][2]int64, error)
	join(ctx context.Context, group, topic string, seen *memberLog) (member, error)
	committed(ctx context.Context, group, topic string) (map[int32]int64, error)
	createTopic(ctx context.Context, topic string, partitions int32, replication int16, config map[string]string) error
	topics(ctx context.Context) ([]string, error)
	describeTopic(ctx context.Context, topic string) (map[int32]place, error)
	addPartitions(ctx context.Context, topic string, count int32) error
	deleteTopic(ctx context.Context, topic string) error
	topicConfig(ctx context.Context, topic string) (map[string]string, error)
	alterTopicConfig(ctx context.Context, topic string, config map[string]string) error
	cluster(ctx context.Context) (clusterState, error)
	groups(ctx context.Context) ([]string, error)
	describeGroup(ctx context.Context, group string) (groupState, error)
	deleteGroup(ctx context.Context, group string) error
	deleteRecords(ctx context.Context, topic string, before map[int32]int64) error
}

// member is a group member that reads in the background into its memberLog.
type member interface {
	commit(ctx context.Context) error
	leave(ctx context.Context) error
}

// memberLog is what a member owns and has read, kept by its callbacks.
type memberLog struct {
	mu       sync.Mutex
	assigned map[int32]bool
	taken    []record
	fault    error
}

func (m *memberLog) own(partitions ...int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range partitions {
		m.assigned[each] = true
	}
}

func (m *memberLog) disown(partitions ...int32) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, each := range partitions {
		delete(m.assigned, each)
	}
}

func (m *memberLog) take(r record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.taken = append(m.taken, r)
}

func (m *memberLog) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fault = err
}

// positions is one after the last record taken of each partition owned now.
func (m *memberLog) positions() map[int32]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := map[int32]int64{}
	for _, r := range m.taken {
		if m.assigned[r.Partition] {
			next[r.Partition] = r.Offset + 1
		}
	}
	return next
}

type call struct {
	Op   string `json:"op"`
	Args struct {
		Topic       string            `json:"topic"`
		Codec       string            `json:"codec"`
		Records     []record          `json:"records"`
		Ranges      []span            `json:"ranges"`
		TimestampMs int64             `json:"timestamp_ms"`
		Member      string            `json:"member"`
		Group       string            `json:"group"`
		Partitions  int32             `json:"partitions"`
		Replication int16             `json:"replication"`
		Count       int32             `json:"count"`
		Config      map[string]string `json:"config"`
		Before      [][2]int64        `json:"before"`
	} `json:"args"`
}

type session struct {
	client  client
	members map[string]member
	logs    map[string]*memberLog
}

func (s *session) answer(c call) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), waitTime)
	defer cancel()
	a := c.Args
	switch c.Op {
	case "produce":
		return s.client.produce(ctx, a.Topic, a.Records, a.Codec)
	case "consume":
		return s.client.consume(ctx, a.Topic, a.Ranges)
	case "offsets_for_time":
		return s.client.offsetsForTime(ctx, a.Topic, a.TimestampMs)
	case "bounds":
		return s.client.bounds(ctx, a.Topic)
	case "join", "assigned", "taken", "commit", "leave":
		return s.answerMember(ctx, c)
	case "committed":
		return s.client.committed(ctx, a.Group, a.Topic)
	case "create_topic":
		return nil, s.client.createTopic(ctx, a.Topic, a.Partitions, a.Replication, a.Config)
	case "topics":
		return s.client.topics(ctx)
	case "describe_topic":
		return s.client.describeTopic(ctx, a.Topic)
	case "add_partitions":
		return nil, s.client.addPartitions(ctx, a.Topic, a.Count)
	case "delete_topic":
		return nil, s.client.deleteTopic(ctx, a.Topic)
	case "topic_config":
		return s.client.topicConfig(ctx, a.Topic)
	case "alter_topic_config":
		return nil, s.client.alterTopicConfig(ctx, a.Topic, a.Config)
	case "cluster":
		return s.client.cluster(ctx)
	case "groups":
		return s.client.groups(ctx)
	case "describe_group":
		return s.client.describeGroup(ctx, a.Group)
	case "delete_group":
		return nil, s.client.deleteGroup(ctx, a.Group)
	case "delete_records":
		before := map[int32]int64{}
		for _, each := range a.Before {
			before[int32(each[0])] = each[1]
		}
		return nil, s.client.deleteRecords(ctx, a.Topic, before)
	}
	return nil, fmt.Errorf("no such call: %s", c.Op)
}

func (s *session) answerMember(ctx context.Context, c call) (any, error) {
	name := c.Args.Member
	if c.Op == "join" {
		seen := &memberLog{assigned: map[int32]bool{}}
		joined, err := s.client.join(ctx, c.Args.Group, c.Args.Topic, seen)
		s.members[name], s.logs[name] = joined, seen
		return nil, err
	}
	seen := s.logs[name]
	switch c.Op {
	case "commit":
		return nil, s.members[name].commit(ctx)
	case "leave":
		return nil, s.members[name].leave(ctx)
	}
	seen.mu.Lock()
	defer seen.mu.Unlock()
	if c.Op == "taken" {
		return append([]record{}, seen.taken...), seen.fault
	}
	owned := []int32{}
	for each := range seen.assigned {
		owned = append(owned, each)
	}
	return owned, seen.fault
}

// codeOf finds Kafka's error code in the error types of the three libraries.
func codeOf(err error) any {
	var franz *kerr.Error
	var ibm sarama.KError
	var ibmTopic *sarama.TopicError
	var ibmPartitions *sarama.TopicPartitionError
	var ibmProduced sarama.ProducerErrors
	var segment kafka.Error
	var segmentWritten kafka.WriteErrors
	var segmentTooLarge kafka.MessageTooLargeError
	switch {
	case errors.As(err, &franz):
		return franz.Code
	case errors.As(err, &ibmProduced) && len(ibmProduced) > 0:
		return codeOf(ibmProduced[0].Err)
	case errors.As(err, &ibmTopic):
		return ibmTopic.Err
	case errors.As(err, &ibmPartitions):
		return ibmPartitions.Err
	case errors.As(err, &ibm):
		return ibm
	case errors.As(err, &segmentWritten):
		for _, each := range segmentWritten {
			if each != nil {
				return codeOf(each)
			}
		}
	case errors.As(err, &segmentTooLarge):
		return kafka.MessageSizeTooLarge
	case errors.As(err, &segment):
		return segment
	}
	return nil
}

func main() {
	programs := map[string]func(string) error{"member": runGroupMember, "copier": runCopier}
	if program, known := programs[os.Args[1]]; known {
		if err := program(os.Args[2]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	makers := map[string]func([]string) (client, error){
		"franz": newFranz, "sarama": newSarama, "kafka-go": newKafkaGo,
	}
	c, err := makers[os.Args[1]](strings.Split(os.Args[2], ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	s := &session{client: c, members: map[string]member{}, logs: map[string]*memberLog{}}
	in, out := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20)), json.NewEncoder(os.Stdout)
	for {
		var next call
		if err := in.Decode(&next); err != nil {
			if !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, err)
			}
			return
		}
		result, err := s.answer(next)
		if err != nil {
			_ = out.Encode(map[string]any{"error": map[string]any{"code": codeOf(err), "message": err.Error()}})
		} else {
			_ = out.Encode(map[string]any{"result": result})
		}
	}
}
