package cases

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// All times of a config are divided by one number, so that what fits into what
// stays so.
func TestAPaceKeepsTheProportions(t *testing.T) {
	cfg, err := config.Parse("sidecall.yaml", []byte(shop), environment{})
	if err != nil {
		t.Fatal(err)
	}
	look, _ := targets{cfg}.find("look")
	p := paceOf([]target{look}, leastWaited)
	if p != 60 {
		t.Fatalf("a pace of %v", p)
	}
	p.apply(cfg)
	policy := cfg.Policy("look")
	if policy.AttemptTimeout != 500*time.Millisecond || policy.Deadline != time.Second || policy.Retry.Max != 10*time.Second/60 || policy.Retry.MaxAttempts != 3 {
		t.Errorf("%+v", policy)
	}
	if b := cfg.Backends["up"].Breaker; b.Window != 500*time.Millisecond || b.OpenFor != 10*time.Second/60 || b.Failures != 5 {
		t.Errorf("%+v", b)
	}
	if v := cfg.Tools["pay_surely"].Verify; v.NotRunAfter != time.Minute || v.Timeout != 5*time.Second {
		t.Errorf("%+v", v)
	}
	if v := cfg.Tools["pay_oddly"].Verify; v.NotRunAfter != 500*time.Millisecond {
		t.Errorf("%+v", v)
	}
}

// A short timeout is not made shorter.
func TestAPaceIsNeverSlowerThanLife(t *testing.T) {
	quick := target{policy: tool.Policy{AttemptTimeout: 100 * time.Millisecond}}
	slow := target{policy: tool.Policy{AttemptTimeout: time.Minute}}
	if p := paceOf([]target{slow, quick}, leastWaited); p != 1 {
		t.Errorf("%v", p)
	}
	if p := paceOf(nil, leastWaited); p != 1 {
		t.Errorf("%v", p)
	}
	if p := pace(1); p.tell("after 1.234s") != "after 1.2s" && p.long(time.Second) != time.Second {
		t.Error("life is told differently")
	}
}

// What is told of times is that of life.
func TestTimesAreToldAsInLife(t *testing.T) {
	p := pace(60)
	for text, want := range map[string]string{
		"Call look again after 500ms, or go on without it.": "Call look again after 30s, or go on without it.",
		"Sidecall made 3 attempts at look over 1s.":         "Sidecall made 3 attempts at look over 1m0s.",
		"after 17ms":            "after 1s",
		"after 1m30s":           "after 1h30m0s",
		"the day after 3 words": "the day after 3 words",
		"turnover 5s":           "turnover 5s",
		"it took 5s":            "it took 5s",
	} {
		if got := p.tell(text); got != want {
			t.Errorf("%q is told as %q, not %q", text, got, want)
		}
	}
	for _, d := range []time.Duration{time.Second, 30 * time.Second, 90 * time.Second, time.Hour} {
		for _, p := range []pace{1, 7, 60, 171} {
			if got := p.long(p.short(d)); got.Round(tick) != d {
				t.Errorf("%s at a pace of %v is %s", d, p, got)
			}
		}
	}
}

// A case that was disturbed is run again, and not for ever.
func TestADisturbedCaseIsRunAgain(t *testing.T) {
	type ran struct{ met, still bool }
	for name, c := range map[string]struct {
		runs      []ran
		met       bool
		disturbed bool
	}{
		"met":                           {[]ran{{true, false}}, true, false},
		"met though it stood still":     {[]ran{{true, true}}, true, false},
		"not met":                       {[]ran{{false, false}}, false, false},
		"disturbed, then met":           {[]ran{{false, true}, {false, true}, {true, false}}, true, false},
		"disturbed, then not met":       {[]ran{{false, true}, {false, false}}, false, false},
		"disturbed as often as it runs": {[]ran{{false, true}, {false, true}, {false, true}, {false, true}, {false, true}}, false, true},
	} {
		n := 0
		result, err := untilUndisturbed(func() (Result, bool, error) {
			one := c.runs[n]
			n++
			return Result{Met: one.met}, one.still, nil
		})
		if err != nil || n != len(c.runs) || result.Met != c.met || result.Disturbed != c.disturbed {
			t.Errorf("%s: %d runs, %+v, %v", name, n, result, err)
		}
	}
	broken := errors.New("no sockets left")
	if _, err := untilUndisturbed(func() (Result, bool, error) { return Result{}, true, broken }); !errors.Is(err, broken) {
		t.Error(err)
	}
}

// A machine that stands still is seen; one that does not is not.
func TestAStandstillIsSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watchClock()
		time.Sleep(time.Minute)
		if w.end(leastWaited) {
			t.Errorf("%s without a look, and nothing stood still", w.longest)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		w := watchClock()
		time.Sleep(time.Second)
		synctest.Wait()
		w.look(time.Now().Add(5 * time.Second)) // as the next look would be
		if !w.end(leastWaited) || w.longest != 5*time.Second {
			t.Errorf("%s", w.longest)
		}
	})
}

// No secret is read, and what is not there has the form that its name promises.
func TestTheEnvironmentOfCases(t *testing.T) {
	t.Setenv("CASES_TEST_TOKEN", "a real secret")
	t.Setenv("CASES_TEST_REGION", "eu-west-1")
	for name, want := range map[string]string{
		"CASES_TEST_TOKEN": placeholder, "CASES_TEST_REGION": "eu-west-1", "CASES_TEST_NONE": placeholder,
		"CASES_TEST_URL": "http://stand-in.invalid", "CASES_TEST_HOST": "stand-in.invalid", "CASES_TEST_PORT": "1",
		"CASES_TEST_KEYCLOAK_URL": "http://stand-in.invalid",
	} {
		if got, ok := (environment{}).Getenv(name); !ok || got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got, err := (environment{}).ReadFile("/etc/hostname"); err != nil || strings.TrimSpace(string(got)) != placeholder {
		t.Errorf("%q, %v", got, err)
	}
}
