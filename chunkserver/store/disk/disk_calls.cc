#include "chunkserver/store/disk/disk_calls.h"

#include <boost/asio/post.hpp>

#include "common/base/assert.h"

namespace kintsugi::chunkserver {
namespace {

constexpr Duration kLookEvery = std::chrono::seconds(1);

}  // namespace

asio::awaitable<void> DiskCalls::watch(runtime::TaskGroup& tasks) {
  while (!tasks.stopping() || !waiting_.empty()) {
    if (tasks.stopping()) {
      (void)co_await ended_.wait_until(runtime_.clock.now() + kLookEvery);
    } else {
      (void)co_await tasks.sleep_for(kLookEvery);
    }
    std::vector<std::shared_ptr<Call>> hung;
    for (const std::shared_ptr<Call>& call : waiting_)
      if (call->caller && !call->disk->answers()) hung.push_back(call);
    for (const std::shared_ptr<Call>& call : hung) {
      call->given_up = call->disk->check_answers();
      if (call->abandoned) call->abandoned->value = true;
      tell(*call);
    }
  }
}

void DiskCalls::tell(Call& call) {
  if (!call.caller) return;
  auto caller = std::exchange(call.caller, {});
  if (!call.is_starting) return caller.resume(true);
  asio::post(runtime_.executor, [caller = std::move(caller)]() mutable { caller.resume(true); });
}

void DiskCalls::abort_on_exception(std::exception_ptr error) {
  KINTSUGI_ASSERT(!error);
}

}  // namespace kintsugi::chunkserver
