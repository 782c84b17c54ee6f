package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

// segment is segmentio/kafka-go: older versions of each request, a connection for each reader.
type segment struct {
	bootstrap []string
}

func newKafkaGo(bootstrap []string) (client, error) { return &segment{bootstrap}, nil }

// now is a client for one call: a transport keeps its view of the cluster for seconds, and a test's topic is younger.
func (k *segment) now() *kafka.Client {
	transport := &kafka.Transport{IdleTimeout: time.Second}
	return &kafka.Client{Addr: kafka.TCP(k.bootstrap...), Timeout: waitTime, Transport: transport}
}

func (k *segment) produce(ctx context.Context, topic string, records []record, codec string) ([]int64, error) {
	codecs := map[string]kafka.Compression{
		"none": 0, "gzip": kafka.Gzip, "snappy": kafka.Snappy, "lz4": kafka.Lz4, "zstd": kafka.Zstd,
	}
	offsets := make([]int64, len(records))
	var mu sync.Mutex
	writer := &kafka.Writer{
		Addr: kafka.TCP(k.bootstrap...), Transport: k.now().Transport, Topic: topic, RequiredAcks: kafka.RequireAll, Compression: codecs[codec],
		BatchBytes: 10_000_000, BatchTimeout: 5 * time.Millisecond, MaxAttempts: 3,
		// The writer has no fixed partition: its balancer is told one with each message.
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return int(records[m.WriterData.(int)].Partition) }),
		Completion: func(messages []kafka.Message, _ error) {
			mu.Lock()
			defer mu.Unlock()
			for _, m := range messages {
				offsets[m.WriterData.(int)] = m.Offset
			}
		},
	}
	outgoing := make([]kafka.Message, len(records))
	for at, r := range records {
		outgoing[at] = kafka.Message{
			Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.TimestampMs), WriterData: at,
		}
		for _, each := range r.Headers {
			outgoing[at].Headers = append(outgoing[at].Headers, kafka.Header{Key: each.Name, Value: each.Value})
		}
	}
	err := writer.WriteMessages(ctx, outgoing...)
	return offsets, errors.Join(err, writer.Close())
}

func segmentRecord(m kafka.Message) record {
	read := record{int32(m.Partition), m.Offset, m.Time.UnixMilli(), m.Key, m.Value, []header{}}
	for _, each := range m.Headers {
		read.Headers = append(read.Headers, header{each.Key, each.Value})
	}
	return read
}

func (k *segment) reader(topic string, partition int, offset int64) (*kafka.Reader, error) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: k.bootstrap, Topic: topic, Partition: partition, MaxBytes: 10_000_000,
		MaxWait: 250 * time.Millisecond,
	})
	return reader, reader.SetOffset(offset)
}

func (k *segment) consume(ctx context.Context, topic string, spans []span) ([]record, error) {
	found := []record{}
	for _, each := range spans {
		reader, err := k.reader(topic, int(each[0]), each[1])
		if err != nil {
			return nil, err
		}
		for last := each[1] - 1; last+1 < each[2]; {
			message, err := reader.ReadMessage(ctx)
			if err != nil {
				return nil, err
			}
			last = message.Offset
			if last < each[2] {
				found = append(found, segmentRecord(message))
			}
		}
		if err := reader.Close(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (k *segment) offsetsForTime(ctx context.Context, topic string, timestampMs int64) (map[int32]int64, error) {
	places, err := k.describeTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	requests := []kafka.OffsetRequest{}
	for at := range places {
		requests = append(requests, kafka.TimeOffsetOf(int(at), time.UnixMilli(timestampMs)))
	}
	found, err := k.now().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, each := range found.Topics[topic] {
		if each.Error != nil {
			return nil, each.Error
		}
		for offset := range each.Offsets {
			offsets[int32(each.Partition)] = offset
		}
	}
	return offsets, nil
}

func (k *segment) bounds(ctx context.Context, topic string) (map[int32][2]int64, error) {
	places, err := k.describeTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	requests := []kafka.OffsetRequest{}
	for at := range places {
		requests = append(requests, kafka.FirstOffsetOf(int(at)), kafka.LastOffsetOf(int(at)))
	}
	found, err := k.now().ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: requests}})
	if err != nil {
		return nil, err
	}
	both := map[int32][2]int64{}
	for _, each := range found.Topics[topic] {
		if each.Error != nil {
			return nil, each.Error
		}
		both[int32(each.Partition)] = [2]int64{each.FirstOffset, each.LastOffset}
	}
	return both, nil
}

type segmentMember struct {
	group  *kafka.ConsumerGroup
	topic  string
	seen   *memberLog
	mu     sync.Mutex
	now    *kafka.Generation
	done   chan struct{}
	cancel context.CancelFunc
}

func (k *segment) join(_ context.Context, group, topic string, seen *memberLog) (member, error) {
	joined, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID: group, Brokers: k.bootstrap, Topics: []string{topic}, StartOffset: kafka.FirstOffset,
		HeartbeatInterval: 500 * time.Millisecond, JoinGroupBackoff: 100 * time.Millisecond,
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &segmentMember{group: joined, topic: topic, seen: seen, done: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(m.done)
		for {
			generation, err := joined.Next(ctx)
			if errors.Is(err, kafka.ErrGroupClosed) || errors.Is(err, context.Canceled) {
				return
			}
			if err != nil {
				continue // the library joins again by itself
			}
			m.mu.Lock()
			m.now = generation
			m.mu.Unlock()
			for _, each := range generation.Assignments[topic] {
				generation.Start(func(ctx context.Context) { k.readClaim(ctx, m, each) })
			}
		}
	}()
	return m, nil
}

func (k *segment) readClaim(ctx context.Context, m *segmentMember, claim kafka.PartitionAssignment) {
	m.seen.own(int32(claim.ID))
	defer m.seen.disown(int32(claim.ID))
	reader, err := k.reader(m.topic, claim.ID, claim.Offset)
	if err != nil {
		m.seen.fail(err)
		return
	}
	defer reader.Close()
	for {
		message, err := reader.ReadMessage(ctx)
		if err != nil {
			return // the generation has ended
		}
		m.seen.take(segmentRecord(message))
	}
}

func (m *segmentMember) commit(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	offsets := map[int]int64{}
	for at, next := range m.seen.positions() {
		offsets[int(at)] = next
	}
	return m.now.CommitOffsets(map[string]map[int]int64{m.topic: offsets})
}

func (m *segmentMember) leave(context.Context) error {
	err := m.group.Close()
	m.cancel()
	<-m.done
	return err
}

func (k *segment) committed(ctx context.Context, group, topic string) (map[int32]int64, error) {
	places, err := k.describeTopic(ctx, topic)
	if err != nil {
		return nil, err
	}
	wanted := []int{}
	for at := range places {
		wanted = append(wanted, int(at))
	}
	found, err := k.now().OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: wanted}})
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, each := range found.Topics[topic] {
		offsets[int32(each.Partition)] = each.CommittedOffset
	}
	return offsets, found.Error
}

func (k *segment) createTopic(ctx context.Context, topic string, partitions int32, replication int16, config map[string]string) error {
	wanted := kafka.TopicConfig{Topic: topic, NumPartitions: int(partitions), ReplicationFactor: int(replication)}
	for name, value := range config {
		wanted.ConfigEntries = append(wanted.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := k.now().CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{wanted}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (k *segment) topics(ctx context.Context) ([]string, error) {
	found, err := k.now().Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, each := range found.Topics {
		names = append(names, each.Name)
	}
	return names, nil
}

func ids(brokers []kafka.Broker) []int32 {
	found := []int32{}
	for _, each := range brokers {
		found = append(found, int32(each.ID))
	}
	return found
}

func (k *segment) describeTopic(ctx context.Context, topic string) (map[int32]place, error) {
	found, err := k.now().Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return nil, err
	}
	places := map[int32]place{}
	for _, each := range found.Topics[0].Partitions {
		places[int32(each.ID)] = place{int32(each.Leader.ID), ids(each.Replicas), ids(each.Isr)}
	}
	return places, found.Topics[0].Error
}

func (k *segment) addPartitions(ctx context.Context, topic string, count int32) error {
	wanted := []kafka.TopicPartitionsConfig{{Name: topic, Count: count}}
	answer, err := k.now().CreatePartitions(ctx, &kafka.CreatePartitionsRequest{Topics: wanted})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (k *segment) deleteTopic(ctx context.Context, topic string) error {
	answer, err := k.now().DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (k *segment) topicConfig(ctx context.Context, topic string) (map[string]string, error) {
	wanted := []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}}
	found, err := k.now().DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: wanted})
	if err != nil {
		return nil, err
	}
	values := map[string]string{}
	for _, each := range found.Resources[0].ConfigEntries {
		values[each.ConfigName] = each.ConfigValue
	}
	return values, found.Resources[0].Error
}

func (k *segment) alterTopicConfig(ctx context.Context, topic string, config map[string]string) error {
	wanted := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	for name, value := range config {
		wanted.Configs = append(wanted.Configs, kafka.IncrementalAlterConfigsRequestConfig{
			Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet,
		})
	}
	answer, err := k.now().IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{wanted},
	})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

func (k *segment) cluster(ctx context.Context) (clusterState, error) {
	found, err := k.now().Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return clusterState{}, err
	}
	state := clusterState{Controller: int32(found.Controller.ID)}
	for _, each := range found.Brokers {
		state.Brokers = append(state.Brokers, [3]any{each.ID, each.Host, each.Port})
	}
	return state, nil
}

func (k *segment) groups(ctx context.Context) ([]string, error) {
	found, err := k.now().ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, each := range found.Groups {
		names = append(names, each.GroupID)
	}
	return names, found.Error
}

func (k *segment) describeGroup(ctx context.Context, group string) (groupState, error) {
	found, err := k.now().DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return groupState{}, err
	}
	return groupState{found.Groups[0].GroupState, len(found.Groups[0].Members)}, found.Groups[0].Error
}

func (k *segment) deleteGroup(ctx context.Context, group string) error {
	answer, err := k.now().DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return answer.Errors[group]
}

func (k *segment) deleteRecords(context.Context, string, map[int32]int64) error {
	return errors.New("kafka-go has no DeleteRecords")
}
