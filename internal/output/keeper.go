package output

// keeper sets aside what a result has no room for.
type keeper struct {
	ref   string // once there is something
	parts []piece
	space int64  // in bytes
	of    string // conversation
}

// newKeeper returns the keeper of a result; text is how many bytes its text may
// have, which comes first.
func newKeeper(in *Input) keeper {
	if !in.Keep {
		return keeper{}
	}
	return keeper{space: in.KeepLimit - textBytes(in), of: in.Conversation}
}

// textBytes is about how long a text the reply makes.
func textBytes(in *Input) int64 {
	n := int64(len(in.Reply.Text))
	for _, b := range in.Reply.Blocks {
		n += int64(len(b.Text))
	}
	return n
}

// keep sets a part aside and returns its handle; empty when there is no room.
func (k *keeper) keep(name, mediaType string, data []byte) (handle string) {
	size := int64(len(data)) + partOverhead
	if size > k.space {
		return ""
	}
	k.space -= size
	if k.ref == "" {
		k.ref = NewRef(k.of)
	}
	k.parts = append(k.parts, piece{Name: name, MediaType: mediaType, data: data})
	return PartRef(k.ref, name)
}

// bytes is how much is set aside.
func (k *keeper) bytes() (n int64) {
	for _, p := range k.parts {
		n += int64(len(p.data)) + partOverhead
	}
	return n
}

// finish gives a result what was set aside, beside the text that it keeps.
func (k *keeper) finish(s *Shaped) {
	if len(k.parts) == 0 {
		return
	}
	parts := k.parts
	if s.Ref == "" {
		s.Ref, s.KeptComplete = k.ref, true
	} else {
		parts = append([]piece{{data: s.Kept}}, parts...)
	}
	s.Kept = bundle(parts)
}
