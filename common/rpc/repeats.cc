#include "common/rpc/repeats.h"

#include <functional>

#include "common/base/hash.h"
#include "common/runtime/span.h"

namespace kintsugi::rpc {
namespace {

constexpr size_t kMostText = 512;

/// It says nothing about the change: its sender repeats it, or was told that nobody knows.
bool is_undecided(Code code) {
  return code == Code::kUnavailable || code == Code::kDeadlineExceeded || code == Code::kCancelled;
}

size_t hash_of(const Repeats::Call& call) {
  return std::hash<std::string_view>{}(call.bytes) ^
         mix_bits(call.token ^ static_cast<uint64_t>(call.method) << 48);
}

}  // namespace

asio::awaitable<Result<Repeats::Turn>> Repeats::begin(Context context, Call call) {
  const Key key = key_of(call);
  bool waited = false;
  for (auto before = under_way_.find(key); before != under_way_.end(); before = under_way_.find(key)) {
    waited = true;
    if (!before->second) before->second = std::make_shared<runtime::Event>(runtime_);
    const std::shared_ptr<runtime::Event> ended = before->second;
    const runtime::Wait wait(context, runtime::WaitKind::kResource,
                             runtime::named_target(context, "the same change, which came before"));
    if (!co_await ended->wait_until(context.deadline))
      co_return Status{Code::kDeadlineExceeded, "the same change came before, and is under way"};
  }
  const auto refused = refused_.find(slot_of(key));
  if (refused != refused_.end() && refused->second.change == key && refused->second.call == hash_of(call))
    co_return refused->second.status;
  under_way_.emplace(key, nullptr);
  co_return Turn(this, call, waited);
}

void Repeats::Turn::ended(const Status& status) const {
  if (status.ok() || is_undecided(status.code())) return;
  const Key key = key_of(call_);
  // A message may have a name in it that is as long as a request.
  const Status kept{status.code(), std::string(status.message().substr(0, kMostText))};
  repeats_->refused_.insert_or_assign(slot_of(key), Refusal{key, hash_of(call_), kept});
}

Repeats::Turn::~Turn() {
  if (repeats_ == nullptr) return;
  auto taken = repeats_->under_way_.extract(key_of(call_));
  if (taken.mapped()) taken.mapped()->notify_all();
}

}  // namespace kintsugi::rpc
