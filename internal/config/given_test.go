package config

import "testing"

func TestAMessageShowsReferencesAndNotWhatTheyStandFor(t *testing.T) {
	key := "-----BEGIN KEY-----\nMIGHAgEAMBMGByqGSM49\n\t\"quoted\" line of it\n-----END KEY-----\n"
	c := &Source{given: []given{
		{Problem{Path: "tls.key"}, "${file:key}", NewSecret(key)}, {Problem{Path: "run_as"}, "${env:WHO}", NewSecret("bob")},
		{Problem{Path: "store.path"}, "${env:AT}", NewSecret("/var/lib//side/x.db")},
	}}
	for _, tt := range []struct{ path, text, want string }{
		{"tls", "open " + key[:len(key)-1] + ": no such file", "open ${file:key}: no such file"},
		{"tls", `exec: "-----BEGIN KEY-----\nMIGHAgEAMBMGByqGSM49\n\t\"quoted\" line of it\n-----END KEY-----": not found`, `exec: "${file:key}": not found`},
		{"tls", "open -----BEGIN KEY-----\nMIGHAgEAM…: no", "open ${file:key}…: no"},
		{"tls", "open -----BEGIN KEY-----\nMIGHAgEAM", "open ${file:key}"},
		{"", "it says MIGHAgEAMBMGByqGSM49 there", "it says ${file:key} there"},
		{"", "MIGHAgEAMBMGByqG is another", "MIGHAgEAMBMGByqG is another"},
		{"", "open /cwd/var/lib/side/x.db: no", "open /cwd${env:AT}: no"},
		{"run_as", "no user bob, or bobby, or bob", "no user ${env:WHO}, or bobby, or ${env:WHO}"},
		{"", "no user bob", "no user ${env:WHO}"},
		{"run", "no user bob", "no user bob"},
		{"tls", "no user bob", "no user bob"},
	} {
		if got := c.MaskAt(tt.path, tt.text); got != tt.want {
			t.Errorf("%s: %q becomes %q, want %q", tt.path, tt.text, got, tt.want)
		}
	}
	if got := c.Mask("bob has /var/lib//side/x.db"); got != "bob has ${env:AT}" {
		t.Errorf("without a place: %q", got)
	}
}
