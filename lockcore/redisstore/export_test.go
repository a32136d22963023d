package redisstore

// TravelTogether makes every call of s take the way of calls that come at the same time, also where one comes alone.
func TravelTogether(s *Batched) { s.calls.never, s.renews.never = true, true }
