package dedupe

// Running reports whether a call with this key is being admitted or run by this
// process right now, so that a duplicate would wait here for its result. It
// does not touch the store.
func (d *Dedupe) Running(key Key) bool {
	d.flights.mu.Lock()
	defer d.flights.mu.Unlock()
	_, ok := d.flights.byKey[key]
	return ok
}

// waits tells the caller that its request is about to wait for another one.
// False means that it does not want to.
func (r *Request) waits() bool { return r.Waits == nil || r.Waits() }
