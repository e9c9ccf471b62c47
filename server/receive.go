package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/limit"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// smallRequest is what a request may have without being counted, in bytes: as
	// much as a client may send before it is asked for more (RFC 9113, 6.9.2).
	smallRequest = 64 << 10
	// requestWeight is how often a request is in memory while it is worked on: as
	// it came, as its text, as values, as what is sent on.
	requestWeight = 4
	// maxReceivers bounds how many large requests are received at a time.
	maxReceivers = 64
)

// intake receives the requests of a server. gRPC would read each as a whole, however many
// there are at once, before anybody is asked; so here the length is read first,
// which stands before every message, and a large request has room before the rest
// of it is let in. Small ones wait for nobody.
type intake struct {
	bytes *limit.Bytes
	// arriving are the streams whose requests have not come yet.
	arriving *arrivals
	most     int // bytes of one request
	// slack is how much larger a request may be for gRPC's own refusal, in bytes.
	slack int
	// excess is the status of a request that is too large by itself.
	excess codes.Code
	codec  encoding.CodecV2
	// receivers are those of large requests. They are few: one that stalls holds
	// its room, and all of them must leave room for others.
	receivers chan struct{}
	// single is how many bytes a request has that is no message of a model; messages are
	// the receivers of those that have more.
	single   int
	messages chan struct{}
	// maxBatch is how many calls a batch may have; nil is without a bound.
	maxBatch func() int
	unread   *backlog
	// loads has a place for each page of a conversation that is read, following one for each who
	// follows an MCP server, and subscribed one for each subscription of theirs.
	loads, following, subscribed chan struct{}
}

// newIntake returns the intake of one of so many servers that have bytes in common. Each
// has its share of every bound, so that nobody who stalls at one keeps out who comes to
// another.
func newIntake(bytes *limit.Bytes, servers, most int) *intake {
	bytes = bytes.Part(servers)
	codec := newTextCodec()
	in := &intake{
		bytes: bytes, arriving: new(arrivals), most: most, single: most, slack: max(most/4, wellBeyond), excess: codes.ResourceExhausted,
		loads: make(chan struct{}, max(maxLoading/max(servers, 1), 1)), following: make(chan struct{}, max(maxFollowing/max(servers, 1), 1)),
		subscribed: make(chan struct{}, max(maxSubscribed/max(servers, 1), 1)),
	}
	if bytes != nil {
		in.arriving.most = max(bytes.Max()/2, leastArriving)
		codec.unread = &backlog{most: bytes.Max() / 2}
	}
	in.codec, in.unread = codec, codec.unread
	in.receivers, in.messages = in.receiversOf(most), in.receiversOf(messageRequests*most)
	return in
}

// receiversOf are those of requests of up to so many bytes, which hold a quarter of the
// room if all of them stall.
func (in *intake) receiversOf(most int) chan struct{} {
	if in.bytes == nil {
		return make(chan struct{}, maxReceivers)
	}
	return make(chan struct{}, min(max(in.bytes.Max()/4/(requestWeight*int64(max(most, 1))), 1), maxReceivers))
}

// small is the same for services whose requests are small. They are answered while
// responses of others are unread: whoever watches a sidecar does not hold that against it.
func (in *intake) small() *intake {
	own := *in
	own.most, own.slack, own.unread = maxQuestion, 0, nil
	return &own
}

// wireStream is what gRPC reads a message from. It is not part of its interface,
// but of what it puts into the context; a test sees to it that it is there.
type wireStream interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// methods are those of a service, with requests that are received here.
func (in *intake) methods(service *grpc.ServiceDesc) *grpc.ServiceDesc {
	own := *service
	own.Methods = make([]grpc.MethodDesc, len(service.Methods))
	for i, method := range service.Methods {
		in := in.of(method.MethodName)
		own.Methods[i] = grpc.MethodDesc{
			MethodName: method.MethodName,
			Handler: func(srv any, ctx context.Context, decode func(any) error, interceptor grpc.UnaryServerInterceptor) (any, error) {
				stream, ok := grpc.ServerTransportStreamFromContext(ctx).(wireStream)
				if !ok {
					return method.Handler(srv, ctx, decode, interceptor)
				}
				ctx, data, release, err := in.admit(ctx, stream)
				if err != nil {
					return nil, err
				}
				defer release()
				return method.Handler(srv, ctx, func(into any) error { return in.decode(ctx, data, into) }, interceptor)
			},
		}
	}
	return &own
}

// admit receives the one request of a stream, unless too much is unread. What it holds is in the
// context, until it is released.
func (in *intake) admit(ctx context.Context, stream wireStream) (_ context.Context, data mem.BufferSlice, release func(), err error) {
	if err := in.unread.refuse(); err != nil {
		return ctx, nil, nil, err
	}
	data, load, err := in.receive(ctx, stream)
	switch {
	case errors.Is(err, io.EOF):
		return ctx, nil, nil, status.Error(codes.Internal, "there is no request on the stream")
	case err != nil:
		return ctx, nil, nil, err
	case load != nil:
		ctx = context.WithValue(ctx, loadKey{}, load)
	}
	return ctx, data, load.Release, nil
}

// messageRequests is how many requests a message of a model may be as large as: it holds all
// the calls of a turn, which a client could send one by one.
const messageRequests = 4

// of is the intake of a method.
func (in *intake) of(method string) *intake {
	if method != "RunMessage" && method != "ReadMessage" {
		return in
	}
	own := *in
	own.most *= messageRequests
	return &own
}

type loadKey struct{}

// loadOf is what a request holds; nil when it is small.
func loadOf(ctx context.Context) *limit.Load {
	load, _ := ctx.Value(loadKey{}).(*limit.Load)
	return load
}

// decode reads a request that came.
func (in *intake) decode(ctx context.Context, data mem.BufferSlice, into any) error {
	defer data.Free()
	if size := data.Len(); size > in.most {
		return in.tooLarge(ctx, int64(size))
	}
	if _, isBatch := into.(*sidecallv1.ExecuteToolsRequest); isBatch && in.maxBatch != nil {
		if err := fewEnough(data, in.maxBatch()); err != nil {
			return err
		}
	}
	if err := in.codec.Unmarshal(data, into); err != nil {
		return status.Errorf(codes.Internal, "the request cannot be read: %v", err)
	}
	return nil
}

// receive reads one message, once there is room for it.
func (in *intake) receive(ctx context.Context, stream wireStream) (mem.BufferSlice, *limit.Load, error) {
	defer arrivalOf(ctx).end()
	var header [5]byte
	if err := stream.ReadMessageHeader(header[:]); err != nil {
		return nil, nil, unread(ctx, err)
	}
	size := int64(binary.BigEndian.Uint32(header[1:]))
	switch {
	case size > int64(in.most+in.slack):
		return nil, nil, in.tooLarge(ctx, size)
	case header[0] != 0:
		return in.unpack(ctx, stream, size)
	case size <= smallRequest:
		data, err := read(ctx, stream, size)
		return data, nil, err
	}
	load, leave, err := in.enter(ctx, size)
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	data, err := read(ctx, stream, size)
	if err != nil {
		load.Release()
		return nil, nil, err
	}
	return data, load, nil
}

// enter waits for a receiver of a large request and takes room for it. One that
// announces a large message and does not send it must not hold the place for ever: from
// here on it has its time.
func (in *intake) enter(ctx context.Context, size int64) (load *limit.Load, leave func(), err error) {
	arrivalOf(ctx).rest()
	defer arrivalOf(ctx).wait()
	receivers := in.receivers
	if size > int64(in.single) {
		receivers = in.messages
	}
	if leave, err = place(ctx, receivers); err != nil {
		return nil, nil, err
	}
	load = new(limit.Load)
	load.Of(in.bytes)
	if !load.Take(requestWeight * size) {
		leave()
		return nil, nil, status.Errorf(codes.ResourceExhausted,
			"OVERLOADED: there is no room for a request of %d bytes beside those that are under way (limits.max_held_bytes); nothing was started, send it again later", size)
	}
	arrivalOf(ctx).admitted()
	return load, leave, nil
}

// unpack reads a message that is compressed, of which nobody knows how large it
// is: as large as one may be.
func (in *intake) unpack(ctx context.Context, stream wireStream, size int64) (mem.BufferSlice, *limit.Load, error) {
	packer := encoding.GetCompressor(stream.RecvCompress())
	if packer == nil {
		return nil, nil, status.Errorf(codes.Unimplemented, "the request is compressed with %q, which is not known here", stream.RecvCompress())
	}
	load, leave, err := in.enter(ctx, int64(in.most))
	if err != nil {
		return nil, nil, err
	}
	defer leave()
	data, err := in.unpacked(ctx, stream, packer, size)
	if err != nil {
		load.Release()
		return nil, nil, err
	}
	return mem.BufferSlice{mem.SliceBuffer(data)}, load, nil
}

func (in *intake) unpacked(ctx context.Context, stream wireStream, packer encoding.Compressor, size int64) ([]byte, error) {
	packed, err := read(ctx, stream, size)
	if err != nil {
		return nil, err
	}
	defer packed.Free()
	reader, err := packer.Decompress(packed.Reader())
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(reader, int64(in.most)+1))
	}
	switch {
	case err != nil:
		return nil, status.Errorf(codes.Internal, "the request cannot be unpacked: %v", err)
	case len(data) > in.most:
		return nil, in.tooLarge(ctx, int64(len(data)))
	}
	return data, nil
}

func read(ctx context.Context, stream wireStream, size int64) (mem.BufferSlice, error) {
	data, err := stream.Read(int(min(size, math.MaxInt32)))
	if err != nil {
		return nil, unread(ctx, err)
	}
	return data, nil
}

// unread is the status of a request that did not arrive; io.EOF where there is none.
func unread(ctx context.Context, err error) error {
	if err = ended(ctx, err); errors.Is(err, io.EOF) {
		return io.EOF
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	return status.Errorf(codes.Internal, "the request did not arrive: %v", err)
}

// mostHeader is the metadata, behind the refusal of a request that is too large, that says
// how many bytes one may have: so a client tells it from other refusals, and sends less at
// a time.
const mostHeader = "sidecall-max-request-bytes"

// tooLarge is the status of a request that is longer than one may be.
func (in *intake) tooLarge(ctx context.Context, size int64) error {
	_ = grpc.SetTrailer(ctx, metadata.Pairs(mostHeader, strconv.Itoa(in.most))) // the words say it too
	return status.Errorf(in.excess,
		"the request has %d bytes, the setting limits.max_request_bytes takes %d at most; nothing was started, send less at a time", size, in.most)
}

// wellBeyond is how much larger than it may be a request has to be, in bytes, for
// gRPC to refuse it before it is read: in its own words, which name no setting.
const wellBeyond = 1 << 20

// maxFollowing bounds who follows servers at a time, maxSubscribed what they have subscribed to.
const maxFollowing, maxSubscribed = 1000, 1000
