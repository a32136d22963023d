// Package explore visits every order in which a few contenders for one key can come to it: the real lockcore.Machine, the real rules
// lockcore.Table and lockcore.LedgerTable, a network that delays, loses and doubles what it carries, processes that stand still, and
// clocks that go apart. Time passes in steps of a quarter of the lease.
//
// It is made of tests only: nothing that ships explores. It is no simulation of one run, as package sim is, and draws nothing: within
// its bounds nothing is left out. Its one invariant: two states with one key have one future, so that dropping the second hides nothing.
package explore
