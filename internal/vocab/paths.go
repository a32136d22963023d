package vocab

import "reflect"

// Paths are the texts below doc, a pointer to a section, whose fields are paths of files. With a format, only those of that format.
func (y *Vocabulary) Paths(doc any, format string) (all []*string) {
	var walk func(v reflect.Value, r Rule)
	walk = func(v reflect.Value, r Rule) {
		switch v.Kind() {
		case reflect.Pointer, reflect.Interface:
			if !v.IsNil() {
				walk(v.Elem(), r)
			}
		case reflect.Slice:
			for i := range v.Len() {
				walk(v.Index(i), r)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if f := v.Type().Field(i); f.IsExported() {
					walk(v.Field(i), y.ruleOf(v.Type(), f))
				}
			}
		case reflect.String:
			if r.Path && v.String() != "" && (format == "" || r.Format == format) {
				all = append(all, v.Addr().Interface().(*string))
			}
		}
	}
	walk(reflect.ValueOf(doc), Rule{})
	return all
}
