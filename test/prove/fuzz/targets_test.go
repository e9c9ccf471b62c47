package fuzz_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/test/prove/fuzz"
)

func TestNoTargetIsForgotten(t *testing.T) {
	found, err := fuzz.Find("../../..")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fuzz.Targets, found); diff != "" {
		t.Errorf("the list is not what is there (- listed, + there):\n%s", diff)
	}
}
