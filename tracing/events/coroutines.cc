#include "tracing/events/coroutines.h"

#include <algorithm>

namespace kintsugi::tracing {

Coroutines::Coroutines(EventWriter& writer) : writer_(writer), waits_(writer.function(kWaits)) {}

void Coroutines::go_on(const Coroutine& coroutine, int64_t at_ns, flow::FunctionId labelled) {
  writer_.join(coroutine.chain->lane, at_ns, flow::Kind::kUse, Join::kCoroutine, coroutine.number, labelled);
}

void Coroutines::end_waiting(Chain& chain, int64_t at_ns) {
  if (chain.waits) writer_.leave(chain.lane, at_ns, waits_);
  chain.waits = false;
}

void Coroutines::leave_down_to(Chain& chain, size_t depth, int64_t at_ns) {
  for (; chain.stack.size() > depth; chain.stack.pop_back())
    writer_.leave(chain.lane, at_ns, chain.stack.back()->function);
}

uint32_t Coroutines::spawning_lane(const Place& place, int64_t at_ns) {
  if (!place.spawner) return place.lane;
  // It waits from when its thread left it, and what stands in a lane stands in the order of time.
  wait(place.spawner);
  go_on(*place.spawner, at_ns);
  return place.spawner->chain->lane;
}

Coroutines::Shared Coroutines::begin(flow::FunctionId function, const Place& place, int64_t at_ns) {
  const Shared& outer = place.outer;
  const auto coroutine = std::make_shared<Coroutine>();
  coroutine->number = ++last_number_;
  coroutine->function = function;
  coroutine->chain = outer ? outer->chain : std::make_shared<Chain>();
  Chain& chain = *coroutine->chain;
  const bool is_spawned = !outer && !place.begins_nothing;
  if (!outer) chain.lane = writer_.new_lane();
  if (is_spawned) {
    const uint32_t from = spawning_lane(place, at_ns);
    writer_.join(from, at_ns, flow::Kind::kBegin, Join::kSpawned, coroutine->number);
  }
  chain.stack.push_back(coroutine.get());
  writer_.enter(chain.lane, at_ns, function);
  if (is_spawned)
    writer_.join(chain.lane, at_ns, flow::Kind::kEnd, Join::kSpawned, coroutine->number, function);
  go_on(*coroutine, at_ns, function);
  return coroutine;
}

Coroutines::Shared Coroutines::resume(uint64_t frame, flow::FunctionId function, const Place& place,
                                      int64_t at_ns) {
  Shared& coroutine = at_[frame];
  // Another one lies where one was that nobody saw the end of.
  if (coroutine && coroutine->function != function) destroy(frame, at_ns);
  Shared& known = at_[frame];
  if (!known) {
    known = begin(function, place, at_ns);
  } else {
    Chain& chain = *known->chain;
    if (place.outer && place.outer->chain != known->chain) wait(place.outer);
    end_waiting(chain, at_ns);
    const auto found = std::ranges::find(chain.stack, known.get());
    leave_down_to(chain, static_cast<size_t>(found - chain.stack.begin()) + 1, at_ns);
    go_on(*known, at_ns);
  }
  known->runs = true;
  return known;
}

void Coroutines::wait(const Shared& coroutine) {
  Chain& chain = *coroutine->chain;
  const int64_t since_ns = coroutine->left_ns;
  // It has ended meanwhile, or something else of its chain runs.
  if (chain.stack.empty() || chain.stack.back() != coroutine.get() || coroutine->runs || chain.waits) return;
  writer_.enter(chain.lane, since_ns, waits_);
  go_on(*coroutine, since_ns, waits_);
  chain.waits = true;
}

void Coroutines::destroy(uint64_t frame, int64_t at_ns) {
  const auto found = at_.find(frame);
  if (found == at_.end() || !found->second) return;
  const Shared coroutine = found->second;
  at_.erase(found);
  Chain& chain = *coroutine->chain;
  const auto place = std::ranges::find(chain.stack, coroutine.get());
  if (place == chain.stack.end()) return;
  end_waiting(chain, at_ns);
  leave_down_to(chain, static_cast<size_t>(place - chain.stack.begin()), at_ns);
  if (!chain.stack.empty()) go_on(*chain.stack.back(), at_ns);
}

}  // namespace kintsugi::tracing
