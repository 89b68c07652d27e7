package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

type consumerOptions struct {
	pulsar.ConsumerOptions
	Schema *schemaOptions
}

// Remembers which partitions a Failover consumer was told to be active on.
type activity struct {
	session *session
	id      int
}

func (a activity) tell(topic, change string) {
	a.session.lock.Lock()
	defer a.session.lock.Unlock()
	a.session.changes[a.id] = append(a.session.changes[a.id], topic+" "+change)
}

func (a activity) BecameActive(_ pulsar.Consumer, topic string, _ int32)   { a.tell(topic, "active") }
func (a activity) BecameInactive(_ pulsar.Consumer, topic string, _ int32) { a.tell(topic, "inactive") }

func makeConsumer(s *session, id int, with json.RawMessage) (any, error) {
	var options consumerOptions
	err := read(with, &options)
	if err == nil {
		options.ConsumerOptions.Schema, err = options.Schema.schema()
	}
	if err != nil {
		return nil, err
	}
	options.EventListener = activity{s, id}
	consumer, err := s.client.Subscribe(options.ConsumerOptions)
	if err != nil {
		return nil, err
	}
	s.keep(id, consumer)
	return consumer.Name(), nil
}

// Where to start or to go: a serialised id, "earliest" or "latest", a message that was received, or a time.
type place struct {
	ID      []byte
	Word    string
	Message *int
	TimeMS  int64
}

func (p place) id(s *session) (pulsar.MessageID, error) {
	switch {
	case p.Message != nil:
		return s.message(*p.Message).ID(), nil
	case p.Word == "earliest":
		return pulsar.EarliestMessageID(), nil
	case p.Word == "latest":
		return pulsar.LatestMessageID(), nil
	default:
		return pulsar.DeserializeMessageID(p.ID)
	}
}

func makeReader(s *session, id int, with json.RawMessage) (any, error) {
	var options struct {
		pulsar.ReaderOptions
		Schema *schemaOptions
		Start  place
	}
	err := read(with, &options)
	if err == nil {
		options.ReaderOptions.Schema, err = options.Schema.schema()
	}
	if err == nil {
		options.StartMessageID, err = options.Start.id(s)
	}
	if err != nil {
		return nil, err
	}
	reader, err := s.client.CreateReader(options.ReaderOptions)
	if err != nil {
		return nil, err
	}
	s.keep(id, reader)
	return nil, nil
}

func (s *session) message(number int) pulsar.Message {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.messages[number]
}

type incoming struct {
	Number        int               `json:"number"`
	Topic         string            `json:"topic"`
	Payload       []byte            `json:"payload"`
	ID            []byte            `json:"id"`
	Position      []int             `json:"position"`
	Key           string            `json:"key"`
	OrderingKey   string            `json:"ordering_key"`
	Properties    map[string]string `json:"properties"`
	Redeliveries  uint32            `json:"redeliveries"`
	Producer      string            `json:"producer"`
	PublishTimeMS int64             `json:"publish_time_ms"`
	EventTimeMS   int64             `json:"event_time_ms"`
	Version       *uint64           `json:"version"`
}

func (s *session) shown(message pulsar.Message) incoming {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.messages = append(s.messages, message)
	shown := incoming{
		Number:        len(s.messages) - 1,
		Topic:         message.Topic(),
		Payload:       message.Payload(),
		ID:            message.ID().Serialize(),
		Position:      position(message.ID()),
		Key:           message.Key(),
		OrderingKey:   message.OrderingKey(),
		Properties:    message.Properties(),
		Redeliveries:  message.RedeliveryCount(),
		Producer:      message.ProducerName(),
		PublishTimeMS: message.PublishTime().UnixMilli(),
		EventTimeMS:   message.EventTime().UnixMilli(),
	}
	if bytes := message.SchemaVersion(); len(bytes) == 8 {
		version := binary.BigEndian.Uint64(bytes)
		shown.Version = &version
	}
	return shown
}

// Up to so many messages of a consumer or reader; fewer when none comes for so long.
func receive(s *session, _ int, with json.RawMessage) (any, error) {
	var order struct {
		Of     int
		Count  int
		WaitMS int64
	}
	if err := read(with, &order); err != nil {
		return nil, err
	}
	made, err := found[any](s, order.Of)
	if err != nil {
		return nil, err
	}
	next := func(ctx context.Context) (pulsar.Message, error) {
		return nil, fmt.Errorf("a %T has no messages", made)
	}
	if consumer, is := made.(pulsar.Consumer); is {
		next = consumer.Receive
	} else if reader, is := made.(pulsar.Reader); is {
		next = reader.Next
	}
	came := []incoming{}
	for len(came) < order.Count {
		ctx, cancel := context.WithTimeout(context.Background(), milliseconds(order.WaitMS))
		message, err := next(ctx)
		cancel()
		if errors.Is(err, context.DeadlineExceeded) {
			break
		}
		if err != nil {
			return nil, err
		}
		came = append(came, s.shown(message))
	}
	return came, nil
}

type handling struct {
	Of         int
	Messages   []int
	Cumulative bool
	DelayMS    int64
	Properties map[string]string
	Force      bool

	Transaction int
}

func (s *session) handled(with json.RawMessage) (h handling, consumer pulsar.Consumer, messages []pulsar.Message, err error) {
	if err = read(with, &h); err != nil {
		return
	}
	for _, number := range h.Messages {
		messages = append(messages, s.message(number))
	}
	consumer, err = found[pulsar.Consumer](s, h.Of)
	return
}

func ack(s *session, _ int, with json.RawMessage) (any, error) {
	h, consumer, messages, err := s.handled(with)
	if err != nil {
		return nil, err
	}
	transaction, err := s.transaction(h.Transaction)
	for _, message := range messages {
		switch {
		case err != nil:
			return nil, err
		case transaction != nil:
			err = consumer.AckWithTxn(message, transaction)
		case h.Cumulative:
			err = consumer.AckCumulative(message)
		default:
			err = consumer.Ack(message)
		}
	}
	return nil, err
}

func nack(s *session, _ int, with json.RawMessage) (any, error) {
	_, consumer, messages, err := s.handled(with)
	if err == nil {
		for _, message := range messages {
			consumer.Nack(message)
		}
	}
	return nil, err
}

func reconsumeLater(s *session, _ int, with json.RawMessage) (any, error) {
	h, consumer, messages, err := s.handled(with)
	if err == nil {
		for _, message := range messages {
			consumer.ReconsumeLaterWithCustomProperties(message, h.Properties, milliseconds(h.DelayMS))
		}
	}
	return nil, err
}

func unsubscribe(s *session, _ int, with json.RawMessage) (any, error) {
	h, consumer, _, err := s.handled(with)
	switch {
	case err != nil:
		return nil, err
	case h.Force:
		return nil, consumer.UnsubscribeForce()
	default:
		return nil, consumer.Unsubscribe()
	}
}

func seek(s *session, _ int, with json.RawMessage) (any, error) {
	var order struct {
		Of int
		To place
	}
	if err := read(with, &order); err != nil {
		return nil, err
	}
	seeker, err := found[interface {
		Seek(pulsar.MessageID) error
		SeekByTime(time.Time) error
	}](s, order.Of)
	if err != nil {
		return nil, err
	}
	if order.To.TimeMS != 0 {
		return nil, seeker.SeekByTime(time.UnixMilli(order.To.TimeMS))
	}
	id, err := order.To.id(s)
	if err != nil {
		return nil, err
	}
	return nil, seeker.Seek(id)
}

func last(s *session, _ int, with json.RawMessage) (any, error) {
	h, consumer, _, err := s.handled(with)
	if err != nil {
		reader, isNone := found[pulsar.Reader](s, h.Of)
		if isNone != nil {
			return nil, err
		}
		id, err := reader.GetLastMessageID()
		if err != nil {
			return nil, err
		}
		return map[string][]int{reader.Topic(): position(id)}, nil
	}
	ids, err := consumer.GetLastMessageIDs()
	positions := map[string][]int{}
	for _, id := range ids {
		positions[id.Topic()] = position(id)
	}
	return positions, err
}

func hasNext(s *session, _ int, with json.RawMessage) (any, error) {
	var id int
	if err := read(with, &id); err != nil {
		return nil, err
	}
	reader, err := found[pulsar.Reader](s, id)
	if err != nil {
		return nil, err
	}
	return reader.HasNext(), nil
}

func activeChanges(s *session, _ int, with json.RawMessage) (any, error) {
	var id int
	err := read(with, &id)
	s.lock.Lock()
	defer s.lock.Unlock()
	return append([]string{}, s.changes[id]...), err
}
