// A small face of the official Go client for the tests beside it: requests come as lines of JSON on standard input,
// answers go as lines of JSON to standard output, in the order in which they are ready.
//
//	{"id": 7, "do": "consumer", "with": {"Topic": "t", "SubscriptionName": "s", "Type": 1}}
//	{"id": 7, "result": "name-of-the-consumer"}
//
// What a request makes (a client, a producer, a consumer, ...) and each message is named by a number later on. Options
// are the fields of the client's own structures, by their own names: times are nanoseconds, bytes are base64.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

const longestLine = 64 << 20

type request struct {
	ID   int             `json:"id"`
	Do   string          `json:"do"`
	With json.RawMessage `json:"with"`
}

type answer struct {
	ID     int     `json:"id"`
	Result any     `json:"result"`
	Error  *string `json:"error"`
}

// What a request is done with: its own number, which names what it makes, and everything that was made so far.
type session struct {
	lock     sync.Mutex
	client   pulsar.Client
	made     map[int]any
	messages []pulsar.Message
	changes  map[int][]string
}

type action func(s *session, id int, with json.RawMessage) (any, error)

var actions = map[string]action{
	"client":     makeClient,
	"partitions": partitions,
	"producer":   makeProducer,
	"send":       send,
	"consumer":   makeConsumer,
	"reader":     makeReader,
	"table":      makeTable,
	"entries":    entries,
	"receive":    receive,
	"value":      value,
	"ack":        ack,
	"nack":       nack,
	"later":      reconsumeLater,
	"seek":       seek,
	"last":       last,
	"has_next":   hasNext,
	"changes":    activeChanges,
	"unsub":      unsubscribe,
	"close":      closeMade,
	"begin":      begin,
	"end":        end,
}

func main() {
	s := &session{made: map[int]any{}, changes: map[int][]string{}}
	var printing sync.Mutex
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, longestLine)
	for lines.Scan() {
		var r request
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			fmt.Fprintln(os.Stderr, "no request:", err)
			os.Exit(2)
		}
		go func() {
			line, err := json.Marshal(s.answered(r))
			if err != nil {
				fmt.Fprintln(os.Stderr, "no answer:", err)
				os.Exit(2)
			}
			printing.Lock()
			defer printing.Unlock()
			os.Stdout.Write(append(line, '\n'))
		}()
	}
}

func (s *session) answered(r request) answer {
	result, err := any(nil), errors.New("there is no "+r.Do)
	if do, known := actions[r.Do]; known {
		result, err = do(s, r.ID, r.With)
	}
	if err != nil {
		text := err.Error()
		return answer{ID: r.ID, Error: &text}
	}
	return answer{ID: r.ID, Result: result}
}

// Fields that the target does not have are errors: a test that misspells an option is no test of it.
func read(with json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(with))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

func (s *session) keep(id int, made any) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.made[id] = made
}

func found[T any](s *session, id int) (T, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	made, is := s.made[id].(T)
	if !is {
		return made, fmt.Errorf("%d is a %T", id, s.made[id])
	}
	return made, nil
}

// Options of a client; credentials are an interface there, and texts here.
type clientOptions struct {
	pulsar.ClientOptions
	Token           string
	CertificateRole [2]string // Files of a certificate and its key, whose common name is the role.
}

func makeClient(s *session, _ int, with json.RawMessage) (any, error) {
	var given clientOptions
	if err := read(with, &given); err != nil {
		return nil, err
	}
	options := given.ClientOptions
	if given.Token != "" {
		options.Authentication = pulsar.NewAuthenticationToken(given.Token)
	}
	if role := given.CertificateRole; role[0] != "" {
		options.Authentication = pulsar.NewAuthenticationTLS(role[0], role[1])
	}
	level := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn})
	options.Logger = log.NewLoggerWithSlog(slog.New(level))
	client, err := pulsar.NewClient(options)
	s.client = client
	return nil, err
}

func partitions(s *session, _ int, with json.RawMessage) (any, error) {
	var topic string
	if err := read(with, &topic); err != nil {
		return nil, err
	}
	return s.client.TopicPartitions(topic)
}

func closeMade(s *session, _ int, with json.RawMessage) (any, error) {
	var id int
	if err := read(with, &id); err != nil {
		return nil, err
	}
	made, err := found[interface{ Close() }](s, id)
	if err == nil {
		made.Close()
	}
	return nil, err
}
