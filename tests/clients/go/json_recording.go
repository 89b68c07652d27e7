//go:build ignore

// Prints what the Go client writes as JSON for each type of a field, one case a line: see json_recording.py.
package main

import (
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
)

type inner struct {
	ID   int     `json:"id"`
	Name *string `json:"name,omitempty"`
}
type row struct {
	V any `json:"v"`
}

func main() {
	at := time.Date(2023, 11, 14, 22, 13, 20, 123456789, time.UTC)
	zoned := at.In(time.FixedZone("", 3600))
	big1, _ := new(big.Int).SetString("123456789012345678901234567890", 10)
	cases := []struct {
		name, kind string
		v          any
	}{
		{"bool", `"boolean"`, true}, {"int8", `"int"`, int8(-7)}, {"int64", `"long"`, int64(9007199254740993)}, {"uint32", `"long"`, uint32(4294967295)},
		{"float32", `"float"`, float32(1.1)}, {"float64", `"double"`, 1e300}, {"float64 whole", `"double"`, 3.0}, {"string", `"string"`, "<é\u2028😀>"},
		{"[]byte", `"bytes"`, []byte("abcd")}, {"[]byte nil", `["null","bytes"]`, []byte(nil)}, {"[4]byte", `{"type":"array","items":"int"}`, [4]byte{1, 2, 3, 4}},
		{"time.Time", `{"type":"long","logicalType":"timestamp-micros"}`, at}, {"time.Time of a zone", `{"type":"long","logicalType":"timestamp-millis"}`, zoned},
		{"time.Duration", `"long"`, time.Second}, {"rune", `"int"`, 'é'}, {"[]int", `{"type":"array","items":"int"}`, []int{1, 2}}, {"[]int nil", `["null",{"type":"array","items":"int"}]`, []int(nil)},
		{"map[string]int", `{"type":"map","values":"int"}`, map[string]int{"a": 1}}, {"map[int]string", `{"type":"map","values":"string"}`, map[int]string{-1: "x"}},
		{"struct", `{"type":"record","name":"Inner","fields":[{"name":"id","type":"int"},{"name":"name","type":["null","string"],"default":null}]}`, inner{ID: 1}},
		{"*string nil", `["null","string"]`, (*string)(nil)}, {"json.Number", `"double"`, json.Number("1.50")}, {"*big.Int", `"string"`, big1}, {"*big.Rat", `"string"`, big.NewRat(1, 3)}, {"json.RawMessage", `"string"`, json.RawMessage(`"x"`)}, {"struct{}", `{"type":"record","name":"Empty","fields":[]}`, struct{}{}},
	}
	enc := json.NewEncoder(os.Stdout)
	enc.SetEscapeHTML(false)
	for _, c := range cases {
		def := fmt.Sprintf(`{"type":"record","name":"Row","fields":[{"name":"v","type":%s}]}`, c.kind)
		s, err := pulsar.NewJSONSchemaWithValidation(def, nil)
		if err != nil {
			panic(c.name + err.Error())
		}
		p, err := s.Encode(row{c.v})
		if err != nil {
			panic(err)
		}
		enc.Encode(map[string]any{"case": c.name, "definition": json.RawMessage(def), "payload": string(p)})
	}
}
