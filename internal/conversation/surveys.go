package conversation

import "sync"

// maxSurveys bounds the conversations of which it is remembered where their turns begin.
const maxSurveys = 64

// surveys are those of the conversations that were asked for last: what has been written
// to a conversation does not change, so that each message is read once, however many ask
// and however often.
type surveys struct {
	mu   sync.Mutex
	kept map[Key]*survey
}

// of is the survey of a conversation as far as it was read; one of an earlier
// conversation with the same key is none.
func (s *surveys) of(key Key, head *Head) *survey {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.kept[key]; known != nil && known.begun.Equal(head.StartedAt) && known.format == head.Provider {
		return known
	}
	for other := range s.kept {
		if len(s.kept) < maxSurveys {
			break
		}
		delete(s.kept, other)
	}
	made := &survey{key: key, begun: head.StartedAt, busy: make(chan struct{}, 1), tracker: tracker{format: head.Provider}}
	if s.kept == nil {
		s.kept = make(map[Key]*survey)
	}
	s.kept[key] = made
	return made
}

// forget drops a survey.
func (s *surveys) forget(one *survey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[one.key] == one {
		delete(s.kept, one.key)
	}
}
