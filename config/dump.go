package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"reflect"
	"time"
)

// MarshalJSON writes the config as it applies, defaults included, under the
// keys of the file. References are shown as they are written, never what they
// stand for; a secret that is written out in the file is shown as (secret).
func (c *Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(dump(reflect.ValueOf(c).Elem()))
}

// LogValue is String.
func (c *Config) LogValue() slog.Value { return slog.StringValue(c.String()) }

// dump turns a value into what encoding/json writes as the file has it. Keys
// that say nothing are left out.
func dump(v reflect.Value) any {
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case json.Marshaler:
		return value
	case encoding.TextMarshaler:
		return value
	}
	if shapes[v.Type()] != nil {
		return dumpStruct(v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		return dump(v.Elem())
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = dump(v.Index(i))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for iter := v.MapRange(); iter.Next(); {
			out[fmt.Sprint(iter.Key())] = dump(iter.Value())
		}
		return out
	default:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
			return s.String()
		}
		return v.Interface()
	}
}

func dumpStruct(v reflect.Value) any {
	out := map[string]any{}
	for _, f := range shapes[v.Type()].fields {
		if field := v.FieldByIndex(f.index); f.def != "" || !field.IsZero() {
			out[f.key] = dump(field)
		}
	}
	return out
}
