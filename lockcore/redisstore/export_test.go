package redisstore

// TravelTogether makes every call of s take the way of calls that come at the same time, also where one comes alone.
func TravelTogether(s *Batched) {
	for _, lanes := range []*shards{s.calls, s.renews} {
		lanes.never, lanes.only.never = true, true
	}
}

var Unsent = unsent
