//go:build fipstls_purego && (linux || darwin)

package fipstls

import (
	"reflect"
	"strings"
	"testing"
)

// Each function that is called has a row in the table of the C files, but for those of memory BIOs.
func TestFunctionsAreInTheTable(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range tableRow.FindAllStringSubmatch(functionTable, -1) {
		rows[row[3]] = true
	}
	fields := reflect.TypeFor[functions]()
	for i := range fields.NumField() {
		name := fields.Field(i).Name
		if isBIO := strings.Contains(" BIO_s_mem BIO_read BIO_write BIO_ctrl ", " "+name+" "); rows[name] == isBIO {
			t.Errorf("%s: in the table %v", name, rows[name])
		}
	}
	if len(rows) < 100 {
		t.Errorf("only %d rows were read", len(rows))
	}
}
