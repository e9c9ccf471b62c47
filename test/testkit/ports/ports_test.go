package ports

import "testing"

// A port that a test has is nobody else's, whether somebody listens there or not,
// until the test ends.
func TestAPortIsOneTestsAtATime(t *testing.T) {
	var port int
	t.Run("has it", func(t *testing.T) {
		addr := Free(t, First, First+200, 300)
		for p := First; p <= First+200; p++ {
			if Loopback(p) == addr {
				port = p
			}
		}
		for _, p := range []int{port, port + 300} {
			if held, err := hold(p); err == nil {
				t.Errorf("%d is given twice: %v", p, release(held))
			}
		}
	})
	held, err := hold(port, port+300)
	if err != nil {
		t.Fatalf("%d is not free again: %v", port, err)
	}
	if err := release(held); err != nil {
		t.Error(err)
	}
}
