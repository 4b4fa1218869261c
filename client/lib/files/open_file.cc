#include "client/lib/files/open_file.h"

#include "client/lib/files/open_file_state.h"
#include "common/base/assert.h"

namespace kintsugi::client {

uint64_t OpenFile::inode() const {
  return state_->inode();
}

proto::Attributes OpenFile::attributes() const {
  return state_->attributes();
}

uint64_t OpenFile::size() const {
  return state_->size();
}

asio::awaitable<Result<size_t>> OpenFile::read(Context context, uint64_t offset, std::span<std::byte> into) {
  return state_->read(context, offset, into);
}

asio::awaitable<Status> OpenFile::write(Context context, uint64_t offset, std::span<const std::byte> bytes,
                                        bool kill_privileges) {
  return state_->write(context, offset, bytes, kill_privileges);
}

asio::awaitable<Result<uint64_t>> OpenFile::append(Context context, std::span<const std::byte> bytes,
                                                   bool kill_privileges, uint64_t request) {
  return state_->append(context, bytes, kill_privileges, request);
}

asio::awaitable<Result<proto::Attributes>> OpenFile::set_attributes(Context context,
                                                                    proto::SetAttributesRequest request) {
  return state_->set_attributes(context, std::move(request));
}

asio::awaitable<Status> OpenFile::truncate(Context context, uint64_t size) {
  proto::SetAttributesRequest request;
  request.set_size(size);
  request.set_opened_for_writing(true);
  const auto changed = co_await state_->set_attributes(context, std::move(request));
  co_return changed ? Status{} : changed.error();
}

asio::awaitable<Status> OpenFile::allocate(Context context, AllocateMode mode, uint64_t offset,
                                           uint64_t length) {
  return state_->allocate(context, mode, offset, length);
}

asio::awaitable<Result<uint64_t>> OpenFile::seek_data(Context context, uint64_t offset) {
  return state_->seek(context, offset, true);
}

asio::awaitable<Result<uint64_t>> OpenFile::seek_hole(Context context, uint64_t offset) {
  return state_->seek(context, offset, false);
}

asio::awaitable<Result<uint64_t>> OpenFile::copy_range(Context context, OpenFile& from, uint64_t from_offset,
                                                       uint64_t to_offset, uint64_t length) {
  return state_->copy_range(context, *from.state_, from_offset, to_offset, length);
}

asio::awaitable<Status> OpenFile::flush(Context context) {
  return state_->flush(context);
}

asio::awaitable<Result<proto::Attributes>> OpenFile::refresh(Context context) {
  return state_->refresh(context);
}

void OpenFile::adopt(const proto::Attributes& attributes) {
  state_->adopt(attributes);
}

int64_t OpenFile::changed_by_others_ns() const {
  return state_->changed_by_others_ns();
}

void OpenFile::invalidate(uint64_t offset, uint64_t length) {
  state_->invalidate(offset, length == 0 || offset + length < offset ? UINT64_MAX : offset + length);
}

void OpenFile::discard(Status why) {
  state_->discard(std::move(why));
}

// ---- handles

OpenHandle::OpenHandle(std::shared_ptr<OpenFileState> state)
    : file_(std::move(state)), errors_seen_(file_.state()->handles().errors()) {
  file_.state()->handles().opened();
}

OpenHandle::~OpenHandle() {
  KINTSUGI_ASSERT(closed_);
}

Status OpenHandle::check() {
  const FileHandles& handles = file_.state()->handles();
  if (std::exchange(errors_seen_, handles.errors()) == handles.errors()) return {};
  return handles.last_error();
}

asio::awaitable<Status> OpenHandle::sync(Context context) {
  const Status status = co_await file_.state()->flush(context);
  const Status seen = check();
  co_return status.ok() ? seen : status;
}

asio::awaitable<Status> OpenHandle::close(Context context, bool wait) {
  KINTSUGI_ASSERT(!closed_);
  Status status;
  if (wait) status = co_await file_.state()->flush(context);
  const Status seen = check();
  if (status.ok()) status = seen;
  closed_ = true;
  file_.state()->close_one();
  co_return status;
}

}  // namespace kintsugi::client
