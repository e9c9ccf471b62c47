package output

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestWhatJSONLoses(t *testing.T) {
	x := func(n int) string { return strings.Repeat("x", n) }
	for name, c := range map[string]struct {
		in   string
		room int
		want string
	}{
		"it fits":                        {` [ 1 , "a b" ] `, 40, `[1,"a b"]`},
		"an array loses its tail":        {`[` + strings.Repeat(`100,`, 50) + `0]`, 60, `[100,100,100,100,100,100,100,"[44 of 51 items left out]"]`},
		"a string loses its middle":      {`"` + x(50) + strings.Repeat("y", 50) + `"`, 60, `"xxxxxxxxxxxxxx[… 71 characters left out …]yyyyyyyyyyyyyyy"`},
		"and no escape is split":         {`"` + strings.Repeat(`\n`, 100) + `"`, 61, `"\n\n\n\n\n\n\n[… 86 characters left out …]\n\n\n\n\n\n\n"`},
		"a string without room":          {`"` + x(100) + `"`, 40, `"[100 characters left out]"`},
		"an object shrinks its largest":  {`{"a":1,"b":"` + x(200) + `","c":[2]}`, 120, `{"a":1,"b":"` + x(34) + `[… 132 characters left out …]` + x(34) + `","c":[2]}`},
		"or drops it":                    {`{"a":1,"` + x(100) + `":2,"c":[3]}`, 70, `{"a":1,"c":[3],"_left_out":"1 of 3 members"}`},
		"the marker takes a free name":   {`{"_left_out":1,"` + x(100) + `":2}`, 80, `{"_left_out":1,"_left_out_":"1 of 2 members"}`},
		"equal members: the first stay":  {`{"a":1000,"b":1000,"c":1000,"d":1000,"e":1000,"f":1000,"g":1000}`, 55, `{"a":1000,"b":1000,"_left_out":"5 of 7 members"}`},
		"nothing of an object fits":      {`{"` + x(100) + `":1}`, 40, `{"_left_out":"1 members"}`},
		"nothing of an array fits":       {`["` + x(100) + `"]`, 40, `["[1 items left out]"]`},
		"a number is shown whole or not": {`[1,` + strings.Repeat("9", 100) + `]`, 80, `[1,"[number of 100 digits left out]"]`},
		"digits are kept":                {`[1.10,-0,1E400,` + strings.Repeat("1,", 50) + `1]`, 60, `[1.10,-0,1E400,1,1,1,1,1,1,1,1,"[43 of 54 items left out]"]`},
		"duplicate keys are kept":        {`{"a":1,"a":2,"b":"` + x(90) + `"}`, 90, `{"a":1,"a":2,"b":"` + x(20) + `[… 49 characters left out …]` + x(21) + `"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, shown := cutJSON(compact([]byte(c.in)), c.room)
			if string(got) != c.want || countChars(got) > c.room {
				t.Errorf("%d characters of %d:\ngot  %s\nwant %s", countChars(got), c.room, got, c.want)
			}
			if !json.Valid(got) {
				t.Error("not JSON")
			}
			if shown > len(c.in) || shown < 0 {
				t.Errorf("%d characters shown", shown)
			}
		})
	}
}

func TestLargeItemsShareTheRoom(t *testing.T) {
	item := `{"name":"n","text":"` + strings.Repeat("t", 5000) + `"}`
	got, _ := cutJSON([]byte("["+item+strings.Repeat(","+item, 9)+"]"), 2000)
	if n := strings.Count(string(got), `"name":"n"`); n != sharers {
		t.Errorf("%d items are shown, want %d:\n%s", n, sharers, got)
	}
	got, _ = cutJSON([]byte(`[1,2,`+item+`]`), 2000)
	if countChars(got) < 1800 || !strings.HasPrefix(string(got), `[1,2,{"name":"n","text":"ttt`) {
		t.Errorf("the only large item does not get the room:\n%s", got)
	}
}
