package main

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

type producerOptions struct {
	pulsar.ProducerOptions
	Schema *schemaOptions
}

func makeProducer(s *session, id int, with json.RawMessage) (any, error) {
	var options producerOptions
	err := read(with, &options)
	if err == nil {
		options.ProducerOptions.Schema, err = options.Schema.schema()
	}
	if err != nil {
		return nil, err
	}
	producer, err := s.client.CreateProducer(options.ProducerOptions)
	if err != nil {
		return nil, err
	}
	s.keep(id, producer)
	return producer.Name(), nil
}

// A message to send; a value is encoded by a schema, which is that of the producer where the message has none.
type outgoing struct {
	pulsar.ProducerMessage
	Value  json.RawMessage
	Schema *schemaOptions
	As     string
}

type receipt struct {
	ID       []byte `json:"id"`
	Position []int  `json:"position"`
	Error    string `json:"error"`
}

// Sends all messages before it waits for any receipt; the receipts are those of the messages in their order.
func send(s *session, _ int, with json.RawMessage) (any, error) {
	var order struct {
		Of          int
		Messages    []outgoing
		Transaction int
	}
	if err := read(with, &order); err != nil {
		return nil, err
	}
	producer, err := found[pulsar.Producer](s, order.Of)
	if err != nil {
		return nil, err
	}
	transaction, err := s.transaction(order.Transaction)
	if err != nil {
		return nil, err
	}
	receipts := make([]receipt, len(order.Messages))
	var waiting sync.WaitGroup
	for number, each := range order.Messages {
		message := each.ProducerMessage
		message.Transaction = transaction
		if message.Value, err = typed(each.As, each.Value); err != nil {
			return nil, err
		}
		if message.Schema, err = each.Schema.schema(); err != nil {
			return nil, err
		}
		waiting.Add(1)
		producer.SendAsync(context.Background(), &message,
			func(id pulsar.MessageID, _ *pulsar.ProducerMessage, err error) {
				defer waiting.Done()
				if err != nil {
					receipts[number].Error = err.Error()
				} else {
					receipts[number] = receipt{ID: id.Serialize(), Position: position(id)}
				}
			})
	}
	if err := producer.Flush(); err != nil {
		return nil, err
	}
	waiting.Wait()
	return receipts, nil
}

func position(id pulsar.MessageID) []int {
	return []int{int(id.LedgerID()), int(id.EntryID()), int(id.PartitionIdx()), int(id.BatchIdx())}
}

func milliseconds(count int64) time.Duration { return time.Duration(count) * time.Millisecond }
