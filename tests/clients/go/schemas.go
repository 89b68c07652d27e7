package main

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/apache/pulsar-client-go/pulsar"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A schema by its type; AVRO and JSON have a definition. PROTOBUF_NATIVE is that of google.protobuf.Duration.
type schemaOptions struct {
	Type       string
	Definition string
	Properties map[string]string
}

func (o *schemaOptions) schema() (pulsar.Schema, error) {
	if o == nil {
		return nil, nil
	}
	switch o.Type {
	case "AVRO":
		return pulsar.NewAvroSchemaWithValidation(o.Definition, o.Properties)
	case "JSON":
		return pulsar.NewJSONSchemaWithValidation(o.Definition, o.Properties)
	case "PROTOBUF_NATIVE":
		return pulsar.NewProtoNativeSchemaWithMessage(&durationpb.Duration{}, o.Properties), nil
	case "BYTES":
		return pulsar.NewBytesSchema(o.Properties), nil
	case "STRING":
		return pulsar.NewStringSchema(o.Properties), nil
	case "INT8":
		return pulsar.NewInt8Schema(o.Properties), nil
	case "INT16":
		return pulsar.NewInt16Schema(o.Properties), nil
	case "INT32":
		return pulsar.NewInt32Schema(o.Properties), nil
	case "INT64":
		return pulsar.NewInt64Schema(o.Properties), nil
	case "FLOAT":
		return pulsar.NewFloatSchema(o.Properties), nil
	case "DOUBLE":
		return pulsar.NewDoubleSchema(o.Properties), nil
	}
	return nil, fmt.Errorf("there is no schema %q", o.Type)
}

// A record with fields of several types, as values of AVRO and JSON.
type flight struct {
	Carrier string   `json:"carrier" avro:"carrier"`
	Number  int      `json:"number" avro:"number"`
	Delay   *float64 `json:"delay" avro:"delay"`
}

// The same with the name alone: what an earlier version of the schema had.
type carrier struct {
	Carrier string `json:"carrier" avro:"carrier"`
}

var goTypes = map[string]reflect.Type{
	"carrier":         reflect.TypeFor[carrier](),
	"flight":          reflect.TypeFor[flight](),
	"PROTOBUF_NATIVE": reflect.TypeFor[durationpb.Duration](),
	"BYTES":           reflect.TypeFor[[]byte](),
	"STRING":          reflect.TypeFor[string](),
	"INT8":            reflect.TypeFor[int8](),
	"INT16":           reflect.TypeFor[int16](),
	"INT32":           reflect.TypeFor[int32](),
	"INT64":           reflect.TypeFor[int64](),
	"FLOAT":           reflect.TypeFor[float32](),
	"DOUBLE":          reflect.TypeFor[float64](),
}

func blank(as string) (any, error) {
	of, known := goTypes[as]
	if !known {
		return nil, fmt.Errorf("there is no Go type for %q", as)
	}
	return reflect.New(of).Interface(), nil
}

// What a value is decoded into: the client makes a pointer of each text.
func decoded(as string) reflect.Type {
	if as == "STRING" {
		return reflect.TypeFor[*string]()
	}
	return goTypes[as]
}

// A value of a Go type, from JSON: what the schemas of the client take.
func typed(as string, text json.RawMessage) (any, error) {
	if text == nil {
		return nil, nil
	}
	pointer, err := blank(as)
	if err == nil {
		err = read(text, pointer)
	}
	if err != nil {
		return nil, err
	}
	switch as {
	case "PROTOBUF_NATIVE":
		return pointer, nil
	default:
		return reflect.ValueOf(pointer).Elem().Interface(), nil
	}
}

// A message's value, decoded by the schema that it was written with.
func value(s *session, _ int, with json.RawMessage) (any, error) {
	var order struct {
		Message int
		As      string
	}
	if err := read(with, &order); err != nil {
		return nil, err
	}
	of := decoded(order.As)
	if of == nil {
		return nil, fmt.Errorf("there is no Go type for %q", order.As)
	}
	pointer := reflect.New(of).Interface()
	return pointer, s.message(order.Message).GetSchemaValue(pointer)
}

// A table view of a topic with a schema.
func makeTable(s *session, id int, with json.RawMessage) (any, error) {
	var options struct {
		Topic  string
		Schema *schemaOptions
		As     string
	}
	err := read(with, &options)
	if err != nil {
		return nil, err
	}
	schema, err := options.Schema.schema()
	if err != nil {
		return nil, err
	}
	table, err := s.client.CreateTableView(
		pulsar.TableViewOptions{Topic: options.Topic, Schema: schema, SchemaValueType: decoded(options.As)})
	if err == nil {
		s.keep(id, table)
	}
	return nil, err
}

func entries(s *session, _ int, with json.RawMessage) (any, error) {
	var id int
	if err := read(with, &id); err != nil {
		return nil, err
	}
	table, err := found[pulsar.TableView](s, id)
	if err != nil {
		return nil, err
	}
	known := map[string]any{}
	err = table.ForEach(func(key string, value any) error {
		known[key] = value
		return nil
	})
	return known, err
}
