package timeline

// Build tells a conversation.
func Build(in Input) *Timeline {
	r := newReader(&in)
	if in.Messages != nil {
		for m := range in.Messages {
			r.read(m)
		}
	}
	r.end()
	r.unappended()
	r.judge()
	return &r.Timeline
}
