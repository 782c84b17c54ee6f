package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// franz is franz-go: every request at the newest version that both sides know, idempotent by default.
type franz struct {
	bootstrap []string
	client    *kgo.Client
	admin     *kadm.Client
}

func newFranz(bootstrap []string) (client, error) {
	c, err := newKgo(bootstrap)
	if err != nil {
		return nil, err
	}
	return &franz{bootstrap, c, kadm.NewClient(c)}, nil
}

func (f *franz) produce(ctx context.Context, topic string, records []record, codec string) ([]int64, error) {
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	c, err := newKgo(
		f.bootstrap, kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(codecs[codec]),
		kgo.ProducerBatchMaxBytes(10_000_000), kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	outgoing := make([]*kgo.Record, len(records))
	for at, r := range records {
		outgoing[at] = &kgo.Record{
			Key: r.Key, Value: r.Value, Partition: r.Partition, Timestamp: time.UnixMilli(r.TimestampMs),
		}
		for _, each := range r.Headers {
			outgoing[at].Headers = append(outgoing[at].Headers, kgo.RecordHeader{Key: each.Name, Value: each.Value})
		}
	}
	if err := c.ProduceSync(ctx, outgoing...).FirstErr(); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for at, r := range outgoing {
		offsets[at] = r.Offset
	}
	return offsets, nil
}

func franzRecord(r *kgo.Record) record {
	read := record{r.Partition, r.Offset, r.Timestamp.UnixMilli(), r.Key, r.Value, []header{}}
	for _, each := range r.Headers {
		read.Headers = append(read.Headers, header{each.Key, each.Value})
	}
	return read
}

func (f *franz) consume(ctx context.Context, topic string, spans []span) ([]record, error) {
	starts, ends := map[int32]kgo.Offset{}, map[int32]int64{}
	for _, each := range spans {
		starts[int32(each[0])], ends[int32(each[0])] = kgo.NewOffset().At(each[1]), each[2]
	}
	c, err := newKgo(
		f.bootstrap, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: starts}),
	)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	found := []record{}
	for len(ends) > 0 {
		fetches := c.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			end, wanted := ends[r.Partition]
			if wanted && r.Offset < end {
				found = append(found, franzRecord(r))
			}
			if wanted && r.Offset+1 >= end {
				delete(ends, r.Partition)
			}
		})
	}
	return found, nil
}

func (f *franz) offsetsForTime(ctx context.Context, topic string, timestampMs int64) (map[int32]int64, error) {
	found, err := f.admin.ListOffsetsAfterMilli(ctx, timestampMs, topic)
	if err != nil {
		return nil, err
	}
	ends, err := f.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	found.Each(func(each kadm.ListedOffset) {
		offsets[each.Partition] = each.Offset
		// kadm turns "none" into the end of the partition, which no record can have.
		if end, _ := ends.Lookup(topic, each.Partition); end.Offset == each.Offset {
			offsets[each.Partition] = -1
		}
	})
	return offsets, found.Error()
}

func (f *franz) bounds(ctx context.Context, topic string) (map[int32][2]int64, error) {
	starts, err := f.admin.ListStartOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	ends, err := f.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		return nil, err
	}
	both := map[int32][2]int64{}
	starts.Each(func(each kadm.ListedOffset) {
		end, _ := ends.Lookup(topic, each.Partition)
		both[each.Partition] = [2]int64{each.Offset, end.Offset}
	})
	return both, starts.Error()
}

type franzMember struct {
	client *kgo.Client
	done   chan struct{}
}

func (f *franz) join(_ context.Context, group, topic string, seen *memberLog) (member, error) {
	lost := func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
		seen.disown(partitions[topic]...)
	}
	c, err := newKgo(
		f.bootstrap, kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.HeartbeatInterval(500*time.Millisecond),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			seen.own(partitions[topic]...)
		}),
		kgo.OnPartitionsRevoked(lost), kgo.OnPartitionsLost(lost),
	)
	if err != nil {
		return nil, err
	}
	m := &franzMember{c, make(chan struct{})}
	go func() {
		defer close(m.done)
		for {
			fetches := c.PollFetches(context.Background())
			if fetches.IsClientClosed() {
				return
			}
			if err := fetches.Err(); err != nil {
				seen.fail(err)
			}
			fetches.EachRecord(func(r *kgo.Record) { seen.take(franzRecord(r)) })
		}
	}()
	return m, nil
}

func (m *franzMember) commit(ctx context.Context) error {
	return m.client.CommitUncommittedOffsets(ctx)
}

func (m *franzMember) leave(ctx context.Context) error {
	err := m.client.LeaveGroupContext(ctx)
	m.client.Close()
	<-m.done
	return err
}

func (f *franz) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	found, err := f.admin.FetchOffsets(ctx, group)
	offsets := map[int32]int64{}
	found.Each(func(each kadm.OffsetResponse) {
		if each.Topic == topic {
			offsets[each.Partition] = each.At
		}
	})
	return offsets, err
}

func (f *franz) createTopic(ctx context.Context, topic string, partitions int32, replication int16, config map[string]string) error {
	values := map[string]*string{}
	for name, value := range config {
		values[name] = &value
	}
	_, err := f.admin.CreateTopic(ctx, partitions, replication, values, topic)
	return err
}

func (f *franz) topics(ctx context.Context) ([]string, error) {
	found, err := f.admin.ListTopicsWithInternal(ctx)
	return found.Names(), err
}

func (f *franz) describeTopic(ctx context.Context, topic string) (map[int32]place, error) {
	found, err := f.admin.ListTopicsWithInternal(ctx, topic)
	if err != nil {
		return nil, err
	}
	places := map[int32]place{}
	for at, each := range found[topic].Partitions {
		places[at] = place{each.Leader, each.Replicas, each.ISR}
	}
	return places, found[topic].Err
}

func (f *franz) addPartitions(ctx context.Context, topic string, count int32) error {
	answers, err := f.admin.UpdatePartitions(ctx, int(count), topic)
	if err != nil {
		return err
	}
	return answers.Error()
}

func (f *franz) deleteTopic(ctx context.Context, topic string) error {
	_, err := f.admin.DeleteTopic(ctx, topic)
	return err
}

func (f *franz) topicConfig(ctx context.Context, topic string) (map[string]string, error) {
	found, err := f.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	resource, err := found.On(topic, nil)
	values := map[string]string{}
	for _, each := range resource.Configs {
		values[each.Key] = each.MaybeValue()
	}
	if err == nil {
		err = resource.Err
	}
	return values, err
}

func (f *franz) alterTopicConfig(ctx context.Context, topic string, config map[string]string) error {
	changes := []kadm.AlterConfig{}
	for name, value := range config {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	answers, err := f.admin.AlterTopicConfigs(ctx, changes, topic)
	if err != nil {
		return err
	}
	answer, err := answers.On(topic, nil)
	if err == nil {
		err = answer.Err
	}
	return err
}

func (f *franz) cluster(ctx context.Context) (clusterState, error) {
	found, err := f.admin.BrokerMetadata(ctx)
	state := clusterState{Controller: found.Controller}
	for _, each := range found.Brokers {
		state.Brokers = append(state.Brokers, [3]any{each.NodeID, each.Host, each.Port})
	}
	return state, err
}

func (f *franz) groups(ctx context.Context) ([]string, error) {
	found, err := f.admin.ListGroups(ctx)
	return found.Groups(), err
}

func (f *franz) describeGroup(ctx context.Context, group string) (groupState, error) {
	found, err := f.admin.DescribeGroups(ctx, group)
	if err == nil {
		err = found[group].Err
	}
	return groupState{found[group].State, len(found[group].Members)}, err
}

func (f *franz) deleteGroup(ctx context.Context, group string) error {
	_, err := f.admin.DeleteGroup(ctx, group)
	return err
}

func (f *franz) deleteRecords(ctx context.Context, topic string, before map[int32]int64) error {
	offsets := kadm.Offsets{}
	for at, offset := range before {
		offsets.AddOffset(topic, at, offset, -1)
	}
	answers, err := f.admin.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	return answers.Error()
}
