package effects

// SQL says which rows are read, and from where.
type SQL struct {
	Driver     string // postgres, mysql
	DSN        string // a secret
	Query      string // with one parameter, the cursor, and in its order
	Cursor     string // column that the rows are ordered by
	Start      string // query of one value, where the cursor begins; "" = the greatest there is, of whole numbers
	Overwrites bool   // rows are written over
}
