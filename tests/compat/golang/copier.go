package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// franz-go's GroupTransactSession as a copier of tests/compat/copiers. It runs until it is ended, or ends with
// an error that a new transaction cannot mend, such as to be fenced.

type copierSettings struct {
	Bootstrap       string `json:"bootstrap"`
	Group           string `json:"group"`
	Source          string `json:"source"`
	Target          string `json:"target"`
	TransactionalID string `json:"transactional_id"`
	SessionMs       int    `json:"session_ms"`
	TransactionMs   int    `json:"transaction_ms"`
	Size            int    `json:"size"`
}

func runCopier(settings string) error {
	var given copierSettings
	if err := json.Unmarshal([]byte(settings), &given); err != nil {
		return err
	}
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(strings.Split(given.Bootstrap, ",")...), kgo.TransactionalID(given.TransactionalID),
		kgo.TransactionTimeout(time.Duration(given.TransactionMs)*time.Millisecond),
		kgo.ConsumerGroup(given.Group), kgo.ConsumeTopics(given.Source), kgo.FetchMaxWait(100*time.Millisecond),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.SessionTimeout(time.Duration(given.SessionMs)*time.Millisecond),
		kgo.HeartbeatInterval(time.Duration(given.SessionMs/6)*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0),
	)
	if err != nil {
		return err
	}
	for {
		if err := copyOnce(session, given); err != nil {
			return err
		}
	}
}

// copyOnce is one poll and its transaction; where that was aborted the session reads its records again.
func copyOnce(session *kgo.GroupTransactSession, given copierSettings) error {
	ctx := context.Background()
	wait, done := context.WithTimeout(ctx, 200*time.Millisecond)
	fetches := session.PollRecords(wait, given.Size)
	done()
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	first := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(r *kgo.Record) {
		session.Produce(ctx, &kgo.Record{Topic: given.Target, Partition: r.Partition, Value: r.Value}, first.Promise())
	})
	_, err := session.End(ctx, kgo.TransactionEndTry(first.Err() == nil))
	return err
}
