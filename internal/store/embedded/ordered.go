package embedded

import (
	"iter"
	"slices"
	"sort"
)

// ordered are values in order, each once, in chunks of some hundred, so that one that comes or
// goes moves few others.
type ordered[T any] struct {
	compare func(a, b T) int
	chunks  [][]T
}

const (
	mostOfChunk = 256 // values, at the most
	spare       = 64  // for how many more than it has a chunk that is copied has room
)

// find is where a value is, or would be: its chunk, and its place there.
func (o *ordered[T]) find(v T) (chunk, at int, found bool) {
	if len(o.chunks) == 0 {
		return 0, 0, false
	}
	behind := sort.Search(len(o.chunks), func(i int) bool { return o.compare(o.chunks[i][0], v) > 0 })
	chunk = max(behind-1, 0)
	at, found = slices.BinarySearchFunc(o.chunks[chunk], v, o.compare)
	return chunk, at, found
}

// put adds a value, in the place of one that is its like.
func (o *ordered[T]) put(v T) {
	i, at, found := o.find(v)
	if found {
		o.chunks[i][at] = v
		return
	}
	if len(o.chunks) == 0 {
		o.chunks = [][]T{nil}
	}
	if chunk := o.chunks[i]; len(chunk) == mostOfChunk {
		cut := mostOfChunk / 2
		if at == mostOfChunk { // more may come behind it
			cut = at
		}
		o.chunks[i] = fitted(chunk[:cut])
		o.chunks = slices.Insert(o.chunks, i+1, fitted(chunk[cut:]))
		if at >= cut {
			i, at = i+1, at-cut
		}
	}
	o.chunks[i] = slices.Insert(fitted(o.chunks[i]), at, v)
}

// fitted is a chunk with room for another, and not for many: what is indexed is most of what
// a store has in memory.
func fitted[T any](chunk []T) []T {
	if free := cap(chunk) - len(chunk); 0 < free && free <= 2*spare {
		return chunk
	}
	return append(make([]T, 0, len(chunk)+spare), chunk...)
}

func (o *ordered[T]) remove(v T) {
	i, at, found := o.find(v)
	if !found {
		return
	}
	if o.chunks[i] = fitted(slices.Delete(o.chunks[i], at, at+1)); len(o.chunks[i]) == 0 {
		o.chunks = slices.Delete(o.chunks, i, i+1)
	}
}

func (o *ordered[T]) from(v T) iter.Seq[T] {
	return func(yield func(T) bool) {
		for i, at, _ := o.find(v); i < len(o.chunks); i, at = i+1, 0 {
			for _, v := range o.chunks[i][at:] {
				if !yield(v) {
					return
				}
			}
		}
	}
}
