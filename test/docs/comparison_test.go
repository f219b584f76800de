package docs

import (
	"regexp"
	"strings"
	"testing"
)

const (
	comparisonPage = "docs/comparison.md"
	comparisonTest = "test/e2e/compare_test.go"
)

var (
	// played is a way to roll out that the test plays, as its list begins, and measured is a row of what it printed.
	played   = regexp.MustCompile(`(?m)^\t\{"([^"]+)", "([^"]+)", "[a-z]+\.yaml", `)
	measured = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \| (\d+) \| (\d+) \| \d+ s \|$`)
	// thread is one of an issue or a pull request.
	thread = regexp.MustCompile(`https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+`)
)

// TestComparison lets the page have a row of figures for each way that is played, in its order, in which this project
// lost nothing.
func TestComparison(t *testing.T) {
	ways, rows := played.FindAllStringSubmatch(read(t, comparisonTest), -1), measured.FindAllStringSubmatch(read(t, comparisonPage), -1)
	if len(ways) < 3 || len(ways) != len(rows) {
		t.Fatalf("%s plays %d ways, and %s has figures of %d: run TestComparison of test/e2e with -update", comparisonTest, len(ways), comparisonPage, len(rows))
	}
	for i, row := range rows {
		if row[1] != ways[i][1] || row[2] != ways[i][2] {
			t.Errorf("row %d is of %s, which asks %s, and not of %s, which asks %s", i+1, row[1], row[2], ways[i][1], ways[i][2])
		}
		if strings.HasPrefix(row[1], "IngressDaemonSet") != (row[4] == "0") && !strings.Contains(row[1], "sleep") {
			t.Errorf("%s lost %s of %s", row[1], row[4], row[3])
		}
	}
}

// TestTenQuestions lets each question name threads in which it was asked, and say what is so here.
func TestTenQuestions(t *testing.T) {
	_, questions, _ := strings.Cut(read(t, comparisonPage), "\n## Ten questions\n")
	list := strings.Split(questions, "\n### ")[1:]
	if len(list) != 10 {
		t.Errorf("there are %d questions", len(list))
	}
	for _, question := range list {
		title, answer, _ := strings.Cut(question, "\n")
		if !strings.HasSuffix(title, "?") {
			t.Errorf("%s is no question", title)
		}
		if n := len(thread.FindAllString(answer, -1)); n < 2 {
			t.Errorf("%s names %d threads", title, n)
		}
		if !strings.Contains(answer, "\n\nHere ") {
			t.Errorf("%s does not say what is so here", title)
		}
	}
}
