package main

import (
	"math/rand/v2"
	"slices"
)

// order is the files of a room from the top to the bottom, so that as few arrows as
// can be found run upward.
type order struct {
	files  []string
	upward []arrow
}

// starts is how many orders are made better, step by step; the best is taken. To find
// the best of all takes too long in a large room, and a check that says too much is
// seen.
const starts = 64

func (r *room) order() order {
	at := make(map[string]int, len(r.files))
	for i, name := range r.files {
		at[name] = i
	}
	uses := make([][]int, len(r.files)) // uses[i][j] is 1 when file i uses file j
	for i := range uses {
		uses[i] = make([]int, len(r.files))
	}
	for _, a := range r.arrows {
		uses[at[a.from]][at[a.to]] = 1
	}
	random := rand.New(rand.NewPCG(1, 2)) // the same figures every time
	var best []int
	fewest := len(r.arrows) + 1
	for range starts {
		ranks := random.Perm(len(r.files))
		settle(ranks, uses)
		if n := upward(ranks, uses); n < fewest {
			best, fewest = ranks, n
		}
	}
	o := order{}
	for _, i := range best {
		o.files = append(o.files, r.files[i])
	}
	for _, a := range r.arrows {
		if slices.Index(o.files, a.from) > slices.Index(o.files, a.to) {
			o.upward = append(o.upward, a)
		}
	}
	return o
}

// settle moves one file after the other to where it does best, until none does better
// elsewhere.
func settle(ranks []int, uses [][]int) {
	for moved := true; moved; {
		moved = false
		for from := range ranks {
			if to, gain := bestPlace(from, ranks, uses); gain > 0 {
				file := ranks[from]
				copy(ranks[from:], ranks[from+1:])
				copy(ranks[to+1:], ranks[to:len(ranks)-1])
				ranks[to] = file
				moved = true
			}
		}
	}
}

// bestPlace is where a file does best, and how many arrows less run upward then.
func bestPlace(from int, ranks []int, uses [][]int) (to, gain int) {
	to = from
	for _, step := range [...]int{-1, 1} {
		less := 0
		for at := from + step; at >= 0 && at < len(ranks); at += step {
			// Past that one: the arrows between the two turn round.
			up, down := uses[ranks[from]][ranks[at]], uses[ranks[at]][ranks[from]]
			if less += step * (down - up); less > gain {
				to, gain = at, less
			}
		}
	}
	return to, gain
}

func upward(ranks []int, uses [][]int) (n int) {
	for i, below := range ranks {
		for _, above := range ranks[:i] {
			n += uses[below][above]
		}
	}
	return n
}
