package output

import (
	"testing"
)

func TestTheNotice(t *testing.T) {
	whole := notice{shown: 700, total: 9000, ref: "out_X", keptChars: 9000, next: 350}
	lost, stopped, part := whole, whole, whole
	lost.ref = ""
	stopped.atLeast = true
	part.keptChars = 5000
	const call = ` To read the rest, call read_output with output_ref "out_X" and offset 350.]`
	for _, c := range []struct {
		n     notice
		level int
		want  string
	}{
		{whole, full, `[The call succeeded. Its output is cut: 700 of 9000 characters are shown.` + call},
		{lost, full, `[The call succeeded. Its output is cut: 700 of 9000 characters are shown. The rest is not kept and cannot be read.]`},
		{stopped, full, `[The call succeeded. Its output is cut: 700 of at least 9000 characters are shown (reading stopped at the size limit).` + call},
		{part, full, `[The call succeeded. Its output is cut: 700 of 9000 characters are shown; the first 5000 are kept.` + call},
		{whole, brief, `[Succeeded, cut: 700 of 9000. read_output: output_ref "out_X", offset 350]`},
		{lost, brief, `[Succeeded, cut: 700 of 9000]`},
		{stopped, counts, `[Succeeded, cut: 700 of at least 9000]`},
		{whole, word, `[cut]`},
		{whole, sign, `…`},
	} {
		if got := c.n.text(c.level); got != c.want {
			t.Errorf("got  %s\nwant %s", got, c.want)
		}
	}
}

// What a notice reserves must do for whatever it says in the end.
func TestTheWidestNoticeIsWide(t *testing.T) {
	for _, n := range []notice{{total: 100_000, ref: "out_X", keptChars: 99, atLeast: true}, {total: 7}} {
		for level := range levels {
			for _, shown := range []int{0, 1, n.total / 2, n.total} {
				n.shown, n.next = shown, shown
				if got := chars(n.text(level)); got > n.widest(level) {
					t.Errorf("level %d: %d characters, reserved are %d", level, got, n.widest(level))
				}
			}
			if level > full && n.widest(level) > n.widest(level-1) {
				t.Errorf("level %d is longer than the one before", level)
			}
		}
	}
}

// The complete notice with its boundary, at the widest, fits MinLimit.
func TestMinLimitIsEnough(t *testing.T) {
	n := notice{total: 1 << 30, atLeast: true, ref: NewRef("c1"), keptChars: 1 << 29}
	boundary := newBoundary()
	if got := boundary.chars() + n.widest(full) + separator(full) + leastBody[full]; got > MinLimit {
		t.Errorf("the boundary and the notice take %d characters, MinLimit is %d", got, MinLimit)
	}
	json := len(beforeNotice) + n.widest(full) + quotes(n, full) + len(beforeResult) + 1 + max(leastBody[full], minValue)
	if json > MinLimit {
		t.Errorf("the JSON around a result takes %d characters, MinLimit is %d", json, MinLimit)
	}
}
