#include "client/lib/write/small_write.h"

#include "monitoring/sight/module.h"

namespace kintsugi::client {
namespace {

constexpr sight::Site kSmallWrite{"client.small_write", {"bytes"}};

}  // namespace

SmallWrite::SmallWrite(Resources& resources, Context context, runtime::Endpoint to,
                       proto::WriteSmallChunkRequest request)
    : resources_(resources),
      context_(context.with_deadline(resources.now() + kLimit)),
      to_(std::move(to)),
      request_(std::move(request)),
      changed_(resources.runtime) {}

std::shared_ptr<SmallWrite> SmallWrite::start(Resources& resources, Context context, runtime::Endpoint to,
                                              proto::WriteSmallChunkRequest request) {
  auto write = std::make_shared<SmallWrite>(resources, context, std::move(to), std::move(request));
  resources.background.spawn(run(write));
  return write;
}

asio::awaitable<void> SmallWrite::run(std::shared_ptr<SmallWrite> self) {
  const sight::Task task{self->context_, kSmallWrite, {double(self->request_.data().size())}};
  proto::Empty done;
  Status status = co_await self->resources_.rpc.call(task.context(), self->to_, rpc::Method::kWriteSmallChunk,
                                                     self->request_, done);
  if (self->outcome_) co_return;  // the caller has stopped waiting
  self->outcome_ = std::move(status);
  self->changed_.notify_all();
}

asio::awaitable<Status> SmallWrite::wait() {
  while (!outcome_)
    co_await changed_.wait();
  co_return *outcome_;
}

void SmallWrite::leave() {
  if (!outcome_) outcome_ = Status{Code::kCancelled, "no longer waited for"};
  changed_.notify_all();
}

}  // namespace kintsugi::client
