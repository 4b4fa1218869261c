#include "client/lib/leases/change_numbers.h"

#include "common/base/assert.h"
#include "monitoring/sight/recorder.h"

namespace kintsugi::client {

ChangeNumbers::ChangeNumbers(const runtime::Runtime& runtime, ChangeJournal* journal)
    : journal_(journal ? *journal : own_journal_),
      takes_over_(journal_.session != 0),
      session_(takes_over_ ? journal_.session : runtime.random.next() | 1),
      ended_(runtime) {
  journal_.session = session_;
  ++journal_.generation;
}

ChangeNumbers::~ChangeNumbers() {
  KINTSUGI_ASSERT(under_way_.empty());
}

ChangeNumbers::Turn::~Turn() {
  // One of a former process has no place among those that are under way.
  if (numbers_ && change_.generation() == numbers_->generation()) numbers_->end(change_.number());
}

asio::awaitable<ChangeNumbers::Turn> ChangeNumbers::begin(Context context, uint64_t tag) {
  proto::Change change;
  change.set_session(session_);
  if (tag != 0 && takes_over_) {
    for (const ChangeJournal::Slot& slot : journal_.slots) {
      if (slot.tag != tag || slot.generation == journal_.generation) continue;
      change.set_number(slot.number);
      change.set_generation(slot.generation);
      co_return Turn(this, std::move(change));
    }
  }
  while (!under_way_.empty() && next_number_ - *under_way_.begin() >= proto::kMaxChangesUnderWay) {
    const runtime::Wait wait(context, runtime::WaitKind::kResource,
                             runtime::named_target(context, "changes under way"));
    co_await ended_.wait();
  }
  change.set_number(next_number_++);
  change.set_generation(journal_.generation);
  under_way_.insert(change.number());
  ChangeJournal::Slot& slot =
      journal_.slots[journal_.generation % proto::kGenerations * proto::kMaxChangesUnderWay +
                     change.number() % proto::kMaxChangesUnderWay];
  // The tag comes last: a process that dies in between leaves none that belongs to another change.
  volatile uint64_t& journaled_tag = slot.tag;
  journaled_tag = 0;
  slot.number = change.number();
  slot.generation = change.generation();
  journaled_tag = tag;
  co_return Turn(this, std::move(change));
}

void ChangeNumbers::end(uint64_t number) {
  const bool oldest = *under_way_.begin() == number;
  under_way_.erase(number);
  if (oldest) ended_.notify_all();
}

}  // namespace kintsugi::client
