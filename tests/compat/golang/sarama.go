package main

import (
	"context"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/IBM/sarama"
)

// ibm is sarama, the oldest Go client: no idempotence unless asked, versions by its own table.
type ibm struct {
	bootstrap []string
	client    sarama.Client
	admin     sarama.ClusterAdmin
}

func saramaConfig() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.MaxMessageBytes = 10_000_000
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Flush.Frequency = 5 * time.Millisecond
	config.Consumer.MaxWaitTime = 100 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 45 * time.Second
	config.Metadata.AllowAutoTopicCreation = false
	return secureSarama(config)
}

func newSarama(bootstrap []string) (client, error) {
	c, err := sarama.NewClient(bootstrap, saramaConfig())
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(c)
	return &ibm{bootstrap, c, admin}, err
}

func (s *ibm) produce(_ context.Context, topic string, records []record, codec string) ([]int64, error) {
	codecs := map[string]sarama.CompressionCodec{
		"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
		"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
	}
	config := saramaConfig()
	config.Producer.Compression = codecs[codec]
	producer, err := sarama.NewSyncProducer(s.bootstrap, config)
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	outgoing := make([]*sarama.ProducerMessage, len(records))
	for at, r := range records {
		message := &sarama.ProducerMessage{
			Topic: topic, Partition: r.Partition, Timestamp: time.UnixMilli(r.TimestampMs),
		}
		if r.Key != nil {
			message.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			message.Value = sarama.ByteEncoder(r.Value)
		}
		for _, each := range r.Headers {
			message.Headers = append(message.Headers, sarama.RecordHeader{Key: []byte(each.Name), Value: each.Value})
		}
		outgoing[at] = message
	}
	if err := producer.SendMessages(outgoing); err != nil {
		return nil, err
	}
	offsets := make([]int64, len(records))
	for at, message := range outgoing {
		offsets[at] = message.Offset
	}
	return offsets, nil
}

func saramaRecord(m *sarama.ConsumerMessage) record {
	read := record{m.Partition, m.Offset, m.Timestamp.UnixMilli(), m.Key, m.Value, []header{}}
	for _, each := range m.Headers {
		read.Headers = append(read.Headers, header{string(each.Key), each.Value})
	}
	return read
}

func (s *ibm) consume(ctx context.Context, topic string, spans []span) ([]record, error) {
	consumer, err := sarama.NewConsumer(s.bootstrap, saramaConfig())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	found := []record{}
	for _, each := range spans {
		partition, err := consumer.ConsumePartition(topic, int32(each[0]), each[1])
		if err != nil {
			return nil, err
		}
		for last := each[1] - 1; last+1 < each[2]; {
			select {
			case message := <-partition.Messages():
				last = message.Offset
				if last < each[2] {
					found = append(found, saramaRecord(message))
				}
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err := partition.Close(); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (s *ibm) offsetsAt(topic string, time int64) (map[int32]int64, error) {
	if err := s.client.RefreshMetadata(topic); err != nil {
		return nil, err
	}
	partitions, err := s.client.Partitions(topic)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for _, at := range partitions {
		if offsets[at], err = s.client.GetOffset(topic, at, time); err != nil {
			return nil, err
		}
	}
	return offsets, nil
}

func (s *ibm) offsetsForTime(_ context.Context, topic string, timestampMs int64) (map[int32]int64, error) {
	return s.offsetsAt(topic, timestampMs)
}

func (s *ibm) bounds(_ context.Context, topic string) (map[int32][2]int64, error) {
	starts, err := s.offsetsAt(topic, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	ends, err := s.offsetsAt(topic, sarama.OffsetNewest)
	both := map[int32][2]int64{}
	for at := range starts {
		both[at] = [2]int64{starts[at], ends[at]}
	}
	return both, err
}

type saramaMember struct {
	group   sarama.ConsumerGroup
	seen    *memberLog
	session sarama.ConsumerGroupSession
	cancel  context.CancelFunc
	done    chan struct{}
}

func (s *ibm) join(_ context.Context, group, topic string, seen *memberLog) (member, error) {
	joined, err := sarama.NewConsumerGroup(s.bootstrap, group, saramaConfig())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &saramaMember{group: joined, seen: seen, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(m.done)
		for ctx.Err() == nil {
			if err := joined.Consume(ctx, []string{topic}, m); err != nil && !errors.Is(err, sarama.ErrClosedConsumerGroup) {
				seen.fail(err)
				return
			}
		}
	}()
	return m, nil
}

func (m *saramaMember) Setup(session sarama.ConsumerGroupSession) error {
	m.seen.mu.Lock()
	m.session = session
	m.seen.mu.Unlock()
	for _, partitions := range session.Claims() {
		m.seen.own(partitions...)
	}
	return nil
}

func (m *saramaMember) Cleanup(session sarama.ConsumerGroupSession) error {
	for _, partitions := range session.Claims() {
		m.seen.disown(partitions...)
	}
	return nil
}

func (m *saramaMember) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for {
		select {
		case message, open := <-claim.Messages():
			if !open {
				return nil
			}
			session.MarkMessage(message, "")
			m.seen.take(saramaRecord(message))
		case <-session.Context().Done():
			return nil
		}
	}
}

func (m *saramaMember) commit(context.Context) error {
	m.seen.mu.Lock()
	session := m.session
	m.seen.mu.Unlock()
	session.Commit()
	return nil
}

func (m *saramaMember) leave(context.Context) error {
	m.cancel()
	<-m.done
	return m.group.Close()
}

func (s *ibm) committed(_ context.Context, group, topic string) (map[int32]int64, error) {
	found, err := s.admin.ListConsumerGroupOffsets(group, nil)
	if err != nil {
		return nil, err
	}
	offsets := map[int32]int64{}
	for at, each := range found.Blocks[topic] {
		offsets[at] = each.Offset
	}
	return offsets, nil
}

func (s *ibm) createTopic(_ context.Context, topic string, partitions int32, replication int16, config map[string]string) error {
	values := map[string]*string{}
	for name, value := range config {
		values[name] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: replication, ConfigEntries: values}
	return s.admin.CreateTopic(topic, detail, false)
}

func (s *ibm) topics(context.Context) ([]string, error) {
	found, err := s.admin.ListTopics()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (s *ibm) describeTopic(_ context.Context, topic string) (map[int32]place, error) {
	found, err := s.admin.DescribeTopics([]string{topic})
	if err != nil {
		return nil, err
	}
	if found[0].Err != sarama.ErrNoError {
		return nil, found[0].Err
	}
	places := map[int32]place{}
	for _, each := range found[0].Partitions {
		places[each.ID] = place{each.Leader, each.Replicas, each.Isr}
	}
	return places, nil
}

func (s *ibm) addPartitions(_ context.Context, topic string, count int32) error {
	return s.admin.CreatePartitions(topic, count, nil, false)
}

func (s *ibm) deleteTopic(_ context.Context, topic string) error { return s.admin.DeleteTopic(topic) }

func (s *ibm) topicConfig(_ context.Context, topic string) (map[string]string, error) {
	found, err := s.admin.DescribeConfig(sarama.ConfigResource{Type: sarama.TopicResource, Name: topic})
	values := map[string]string{}
	for _, each := range found {
		values[each.Name] = each.Value
	}
	return values, err
}

func (s *ibm) alterTopicConfig(_ context.Context, topic string, config map[string]string) error {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range config {
		changes[name] = sarama.IncrementalAlterConfigsEntry{
			Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value,
		}
	}
	return s.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
}

func (s *ibm) cluster(context.Context) (clusterState, error) {
	brokers, controller, err := s.admin.DescribeCluster()
	state := clusterState{Controller: controller}
	for _, each := range brokers {
		host, port, _ := net.SplitHostPort(each.Addr())
		number, _ := strconv.Atoi(port)
		state.Brokers = append(state.Brokers, [3]any{each.ID(), host, number})
	}
	return state, err
}

func (s *ibm) groups(context.Context) ([]string, error) {
	found, err := s.admin.ListConsumerGroups()
	names := []string{}
	for name := range found {
		names = append(names, name)
	}
	return names, err
}

func (s *ibm) describeGroup(_ context.Context, group string) (groupState, error) {
	found, err := s.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return groupState{}, err
	}
	if found[0].Err != sarama.ErrNoError {
		return groupState{}, found[0].Err
	}
	return groupState{found[0].State, len(found[0].Members)}, nil
}

func (s *ibm) deleteGroup(_ context.Context, group string) error {
	return s.admin.DeleteConsumerGroup(group)
}

func (s *ibm) deleteRecords(_ context.Context, topic string, before map[int32]int64) error {
	return s.admin.DeleteRecords(topic, before)
}
