package cases

import "time"

// beat is how often the clock is looked at while a case runs.
const beat = 10 * time.Millisecond

// clockWatch sees whether the machine stands still. It has one goroutine, until end.
type clockWatch struct {
	stop, ended chan struct{}
	last        time.Time
	longest     time.Duration // between two looks
}

func watchClock() *clockWatch {
	w := &clockWatch{stop: make(chan struct{}), ended: make(chan struct{}), last: time.Now()}
	go w.run()
	return w
}

func (w *clockWatch) run() {
	defer close(w.ended)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			w.look(time.Now())
		case <-w.stop:
			w.look(time.Now())
			return
		}
	}
}

// look takes in that the clock was looked at.
func (w *clockWatch) look(now time.Time) {
	w.longest, w.last = max(w.longest, now.Sub(w.last)), now
}

// end ends the watch and reports whether the machine stood still for so long that
// an attempt's time may have passed by it, of which it has least.
func (w *clockWatch) end(least time.Duration) (still bool) {
	close(w.stop)
	<-w.ended
	return w.longest > least/4
}
