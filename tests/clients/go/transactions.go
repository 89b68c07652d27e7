package main

import (
	"context"
	"encoding/json"

	"github.com/apache/pulsar-client-go/pulsar"
)

func begin(s *session, id int, with json.RawMessage) (any, error) {
	var order struct{ TimeoutMS int64 }
	if err := read(with, &order); err != nil {
		return nil, err
	}
	transaction, err := s.client.NewTransaction(milliseconds(order.TimeoutMS))
	if err != nil {
		return nil, err
	}
	s.keep(id, transaction)
	txnID := transaction.GetTxnID()
	return []uint64{txnID.MostSigBits, txnID.LeastSigBits}, nil
}

func end(s *session, _ int, with json.RawMessage) (any, error) {
	var order struct {
		Of     int
		Commit bool
	}
	if err := read(with, &order); err != nil {
		return nil, err
	}
	transaction, err := found[pulsar.Transaction](s, order.Of)
	switch {
	case err != nil:
		return nil, err
	case order.Commit:
		return nil, transaction.Commit(context.Background())
	default:
		return nil, transaction.Abort(context.Background())
	}
}

// The transaction of a request, nil for number 0: the first request makes the client.
func (s *session) transaction(number int) (pulsar.Transaction, error) {
	if number == 0 {
		return nil, nil
	}
	return found[pulsar.Transaction](s, number)
}
