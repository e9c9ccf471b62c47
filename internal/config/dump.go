package config

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"time"
)

// MarshalJSON writes the config as it applies, defaults included, under the
// keys of the file. References are shown as they are written, never what they
// stand for; a secret that is written out in the file is shown as (secret).
func (c *Config) MarshalJSON() ([]byte, error) {
	return json.Marshal(dump(reflect.ValueOf(c).Elem(), false))
}

// dump turns a value into what encoding/json writes as the file has it; revealed, with
// what references stand for, which is not to be shown. Keys that say nothing are left
// out.
func dump(v reflect.Value, revealed bool) any {
	switch value := v.Interface().(type) {
	case Text, Path, Secret:
		if revealed {
			return value.(Revealer).Reveal() //nolint:forcetypeassert // each of them is
		}
		return value
	case time.Duration:
		return value.String()
	case json.Marshaler, encoding.TextMarshaler:
		return value
	}
	if shape := shapeOf(v.Type()); shape != nil {
		return shape.dump(v, revealed)
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return dump(v.Elem(), revealed)
	case reflect.Slice:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = dump(v.Index(i), revealed)
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for iter := v.MapRange(); iter.Next(); {
			out[fmt.Sprint(iter.Key())] = dump(iter.Value(), revealed)
		}
		return out
	default:
		if s, ok := reflect.TypeAssert[fmt.Stringer](v); ok {
			return s.String()
		}
		return v.Interface()
	}
}

func (s *shape) dump(v reflect.Value, revealed bool) any {
	for _, f := range s.forms {
		rest := reflect.New(v.Type()).Elem()
		rest.Set(v)
		rest.FieldByIndex(f.index).SetZero()
		if rest.IsZero() {
			return dump(v.FieldByIndex(f.index), revealed)
		}
	}
	out := map[string]any{}
	for _, f := range s.fields {
		if field := v.FieldByIndex(f.index); f.def != "" || !field.IsZero() {
			out[f.key] = dump(field, revealed)
		}
	}
	return out
}
