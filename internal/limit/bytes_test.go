package limit_test

import (
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/limit"
)

func TestWhatDoesNotFitIsNotTaken(t *testing.T) {
	bytes := limit.NewBytes(100)
	var one, other limit.Load
	one.Of(bytes)
	other.Of(bytes)
	if !one.Take(60) || other.Take(50) || !other.Take(40) || other.Take(1) {
		t.Errorf("%d bytes are taken", bytes.Held())
	}
	one.Release()
	if !other.Take(60) || bytes.Held() != 100 {
		t.Errorf("%d bytes are taken", bytes.Held())
	}
	other.Release()
	if bytes.Held() != 0 {
		t.Errorf("%d bytes are taken by nobody", bytes.Held())
	}
	if one.Take(1) || other.Take(1) {
		t.Error("work that has ended takes more")
	}
}

func TestTheFirstAlwaysFits(t *testing.T) {
	bytes := limit.NewBytes(100)
	var large, small limit.Load
	large.Of(bytes)
	small.Of(bytes)
	if !large.Take(1000) || small.Take(1) {
		t.Errorf("%d bytes are taken", bytes.Held())
	}
	if bytes.Full(large.Held()) || !bytes.Full(0) {
		t.Error("what one holds itself keeps it out")
	}
}

func TestAPartKeepsNobodyOutOfAnother(t *testing.T) {
	whole := limit.NewBytes(100)
	var one, other limit.Load
	one.Of(whole.Part(2))
	other.Of(whole.Part(2))
	if !one.Take(40) || one.Take(11) || !one.Take(10) || one.Take(1) || !other.Take(50) || other.Take(1) {
		t.Errorf("%d and %d bytes are taken", one.Held(), other.Held())
	}
	if whole.Held() != 100 {
		t.Errorf("%d bytes of the whole are taken", whole.Held())
	}
	var third limit.Load
	part := whole.Part(2)
	third.Of(part)
	if third.Take(1) || part.Held() != 0 {
		t.Errorf("there are more parts than fit, and %d bytes are held by nobody", part.Held())
	}
	one.Release()
	other.Release()
	if whole.Held() != 0 || whole.Part(1) != whole || limit.NewBytes(0).Part(2) != nil {
		t.Errorf("%d bytes are taken by nobody", whole.Held())
	}
}

func TestALoadIsGivenBackByItsLastHolder(t *testing.T) {
	bytes := limit.NewBytes(100)
	load := new(limit.Load)
	load.Of(bytes)
	load.Take(70)
	load.Share()
	load.Release()
	if bytes.Held() != 70 {
		t.Errorf("%d bytes are taken", bytes.Held())
	}
	load.Release()
	if bytes.Held() != 0 {
		t.Errorf("%d bytes are taken", bytes.Held())
	}
}

func TestWithoutABoundEverythingFits(t *testing.T) {
	var load limit.Load
	load.Of(limit.NewBytes(0))
	if !load.Take(1<<60) || limit.NewBytes(0).Full(0) || limit.NewBytes(0).Held() != 0 {
		t.Error("something does not fit")
	}
	load.Release()
	(*limit.Load)(nil).Share().Release()
}

func TestManyTakeAtTheSameTime(t *testing.T) {
	bytes := limit.NewBytes(1000)
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 1000 {
				var load limit.Load
				load.Of(bytes)
				var twice sync.WaitGroup
				for range 2 {
					twice.Go(func() {
						load.Take(100)
						if held := bytes.Held(); held > 1000 {
							t.Errorf("%d bytes are taken", held)
						}
					})
				}
				load.Empty()
				load.Take(50)
				load.Release()
				twice.Wait()
			}
		})
	}
	all.Wait()
	if bytes.Held() != 0 {
		t.Errorf("%d bytes are taken by nobody", bytes.Held())
	}
}
