package server

import (
	"crypto/rand"
	"encoding/json"
	"sync"
)

// questionsAsked are the questions that wait for an answer, by ids that nobody can guess.
type questionsAsked struct {
	mu      sync.Mutex
	waiting map[string]chan said
}

type said struct {
	result json.RawMessage
	err    error
}

func newAsked() *questionsAsked { return &questionsAsked{waiting: make(map[string]chan said)} }

// open opens a question, which forget ends.
func (a *questionsAsked) open() (id string, answer <-chan said, forget func()) {
	id, waits := rand.Text(), make(chan said, 1)
	a.mu.Lock()
	a.waiting[id] = waits
	a.mu.Unlock()
	return id, waits, func() {
		a.mu.Lock()
		delete(a.waiting, id)
		a.mu.Unlock()
	}
}

// answer answers a question; false when nobody waits for that.
func (a *questionsAsked) answer(id string, with said) bool {
	a.mu.Lock()
	waits := a.waiting[id]
	delete(a.waiting, id)
	a.mu.Unlock()
	if waits == nil {
		return false
	}
	waits <- with
	return true
}

func (a *questionsAsked) refuse(id string, why error) { a.answer(id, said{err: why}) }
