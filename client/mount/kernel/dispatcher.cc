#include "client/mount/kernel/dispatcher.h"

#include <utility>

#include "client/mount/kernel/directory_buffer.h"

namespace kintsugi::mount {

asio::awaitable<int> Dispatcher::serve(Request& request) {
  KINTSUGI_ASSERT(request.operation != nullptr);
  return request.operation->serve(served_, request, Arguments(request.body));
}

asio::awaitable<void> Dispatcher::undo(Request& request) {
  const Granted granted = std::exchange(request.granted, {});
  if (granted.opened && granted.directory) {
    (void)co_await served_.file_system.release_directory(request.caller, granted.opened_node, granted.handle);
  } else if (granted.opened) {
    const ReleaseRequest release{.handle = granted.handle};
    (void)co_await served_.file_system.release(request.caller, granted.opened_node, release);
  }
  const auto forget_one = [this](NodeId node) { served_.file_system.forget(node, 1); };
  if (granted.node != 0) forget_one(granted.node);
  if (granted.listed) for_each_listed(request.reply.text, forget_one);
}

void Dispatcher::forget(const Request& request) {
  Arguments in(request.body);
  if (request.opcode == FUSE_FORGET) {
    const auto one = in.take<fuse_forget_in>();
    if (in.error() == 0 && one.nlookup > 0) served_.file_system.forget(request.node, one.nlookup);
    return;
  }
  const auto batch = in.take<fuse_batch_forget_in>();
  for (uint32_t i = 0; i < batch.count && in.left() >= sizeof(fuse_forget_one); ++i) {
    const auto one = in.take<fuse_forget_one>();
    if (one.nlookup > 0) served_.file_system.forget(one.nodeid, one.nlookup);
  }
}

}  // namespace kintsugi::mount
