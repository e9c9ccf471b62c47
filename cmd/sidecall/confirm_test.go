package main

import (
	"io"
	"os"
	"strings"
	"testing"
)

func TestNobodyAnswersThere(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	reader, writer := io.Pipe()
	defer writer.Close()
	if isTerminal(null) || isTerminal(reader) || isTerminal(strings.NewReader("y\n")) {
		t.Error("what is no terminal is asked")
	}
}
