package config

import (
	"encoding/base64"
	"slices"
	"strings"
)

// Notify is the webhook that is told of calls which need a person.
type Notify struct {
	URL    Text     `yaml:"url" doc:"http or https URL that is sent a POST for each such call. Without this key: nobody is told." format:"url"`
	Secret Secret   `yaml:"secret" with:"url" doc:"What the messages are signed with, as Standard Webhooks are: whsec_ and base64 of 24 to 64 bytes, or any other text of at least 16 bytes."`
	On     []string `yaml:"on" with:"url" doc:"What is told: unknown (nobody knows whether the call ran), held (a person has to allow it). Without this key: both." enum:"unknown|held"`
}

// Key is what messages are signed with.
func (n Notify) Key() []byte {
	text, encoded := strings.CutPrefix(n.Secret.Reveal(), "whsec_")
	if !encoded {
		return []byte(text)
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil { // who receives the messages could not decode it either
		return nil
	}
	return key
}

// Kinds are what is told.
func (n Notify) Kinds() []string {
	if len(n.On) == 0 {
		return []string{"unknown", "held"}
	}
	return n.On
}

func (n Notify) check(w within) {
	switch {
	case n.URL.Reveal() != "" && n.Secret.Reveal() == "":
		w.in("secret").bad("is required with url: without a signature nobody could tell who has sent a message")
	case n.Secret.Reveal() != "" && len(n.Key()) < 16:
		w.in("secret").bad("is no key: expected whsec_ and base64 of 24 to 64 bytes, or another text of at least 16")
	}
	for i, kind := range n.On {
		if slices.Contains(n.On[:i], kind) {
			w.in("on", index(i)).bad(quote(kind) + " is named twice")
		}
	}
}
