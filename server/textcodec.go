package server

import (
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/proto" // the codec that textCodec asks first
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// textCodec reads requests as gRPC does, but for strings that are not UTF-8. By
// themselves those end in gRPC's INTERNAL, which names no call, and a batch with
// one of them has no result at all; here they come through as they are, and are
// refused where calls are. What is valid is read once, and by nothing else.
type textCodec struct {
	encoding.CodecV2

	unread *backlog
}

// newTextCodec returns the codec of a sidecar's requests and responses.
func newTextCodec() textCodec { return textCodec{CodecV2: encoding.GetCodecV2("proto")} }

// Marshal writes a message.
func (c textCodec) Marshal(v any) (mem.BufferSlice, error) {
	encoded, err := c.CodecV2.Marshal(v)
	if err != nil {
		return nil, err
	}
	return c.unread.count(encoded), nil
}

// Unmarshal reads a message.
func (c textCodec) Unmarshal(data mem.BufferSlice, v any) error {
	strict := c.CodecV2.Unmarshal(data, v)
	message, ok := v.(proto.Message)
	if strict == nil || !ok {
		return strict
	}
	proto.Reset(message)
	if err := readLenient(data.Materialize(), message.ProtoReflect()); err != nil {
		return strict // of what is no message at all gRPC's own words say enough
	}
	return nil
}

// readLenient reads a message and takes the bytes of its strings as they are.
func readLenient(encoded []byte, into protoreflect.Message) error {
	var rest []byte // what has no strings in it, for the strict reading
	for len(encoded) > 0 {
		number, kind, tag := protowire.ConsumeTag(encoded)
		if tag < 0 {
			return protowire.ParseError(tag)
		}
		size := protowire.ConsumeFieldValue(number, kind, encoded[tag:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		field := into.Descriptor().Fields().ByNumber(number)
		if field == nil || kind != protowire.BytesType || !mayHoldText(field) {
			rest = append(rest, encoded[:tag+size]...)
		} else {
			content, _ := protowire.ConsumeBytes(encoded[tag:])
			if err := readField(content, field, into); err != nil {
				return err
			}
		}
		encoded = encoded[tag+size:]
	}
	return proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, into.Interface())
}

func mayHoldText(field protoreflect.FieldDescriptor) bool {
	if field.IsMap() {
		return field.MapValue().Kind() == protoreflect.StringKind
	}
	return field.Kind() == protoreflect.StringKind || field.Kind() == protoreflect.MessageKind
}

// readField reads a string, a message or an entry of a map of strings, or one more
// of a list of them.
func readField(content []byte, field protoreflect.FieldDescriptor, into protoreflect.Message) error {
	text := protoreflect.ValueOfString(string(content))
	switch {
	case field.IsMap():
		entry := dynamicpb.NewMessage(field.Message())
		if err := readLenient(content, entry); err != nil {
			return err
		}
		into.Mutable(field).Map().Set(entry.Get(field.MapKey()).MapKey(), entry.Get(field.MapValue()))
	case field.Kind() == protoreflect.StringKind && field.IsList():
		into.Mutable(field).List().Append(text)
	case field.Kind() == protoreflect.StringKind:
		into.Set(field, text)
	case field.IsList():
		return readLenient(content, into.Mutable(field).List().AppendMutable().Message())
	default:
		return readLenient(content, into.Mutable(field).Message())
	}
	return nil
}

// notUTF8Field returns the first string of a message, by its place in the
// contract, that is not UTF-8; nil when all are.
func notUTF8Field(message protoreflect.Message) protoreflect.FieldDescriptor {
	fields := message.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Kind() == protoreflect.StringKind && !field.IsList() && !utf8.ValidString(message.Get(field).String()) {
			return field
		}
	}
	return nil
}
