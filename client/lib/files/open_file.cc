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

asio::awaitable<Result<size_t>> OpenFile::read(uint64_t offset, std::span<std::byte> into) {
  return state_->read(offset, into);
}

asio::awaitable<Status> OpenFile::write(uint64_t offset, std::span<const std::byte> bytes,
                                        bool kill_privileges) {
  return state_->write(offset, bytes, kill_privileges);
}

asio::awaitable<Result<uint64_t>> OpenFile::append(std::span<const std::byte> bytes, bool kill_privileges) {
  return state_->append(bytes, kill_privileges);
}

asio::awaitable<Result<proto::Attributes>> OpenFile::set_attributes(proto::SetAttributesRequest request) {
  return state_->set_attributes(std::move(request));
}

asio::awaitable<Status> OpenFile::truncate(uint64_t size) {
  proto::SetAttributesRequest request;
  request.set_size(size);
  request.set_opened_for_writing(true);
  const auto changed = co_await state_->set_attributes(std::move(request));
  co_return changed ? Status{} : changed.error();
}

asio::awaitable<Status> OpenFile::allocate(AllocateMode mode, uint64_t offset, uint64_t length) {
  return state_->allocate(mode, offset, length);
}

asio::awaitable<Result<uint64_t>> OpenFile::seek_data(uint64_t offset) {
  return state_->seek(offset, true);
}

asio::awaitable<Result<uint64_t>> OpenFile::seek_hole(uint64_t offset) {
  return state_->seek(offset, false);
}

asio::awaitable<Result<uint64_t>> OpenFile::copy_range(OpenFile& from, uint64_t from_offset,
                                                       uint64_t to_offset, uint64_t length) {
  return state_->copy_range(*from.state_, from_offset, to_offset, length);
}

asio::awaitable<Status> OpenFile::flush() {
  return state_->flush();
}

asio::awaitable<Result<proto::Attributes>> OpenFile::refresh() {
  return state_->refresh();
}

void OpenFile::adopt(const proto::Attributes& attributes) {
  state_->adopt(attributes);
}

void OpenFile::invalidate(uint64_t offset, uint64_t length) {
  state_->invalidate(offset, length == 0 || offset + length < offset ? UINT64_MAX : offset + length);
}

void OpenFile::discard(Status why) {
  state_->discard(std::move(why));
}

// ---- handles

OpenHandle::OpenHandle(std::shared_ptr<OpenFileState> state)
    : file_(std::move(state)), errors_seen_(file_.state()->errors()) {
  file_.state()->opened();
}

OpenHandle::~OpenHandle() {
  KINTSUGI_ASSERT(closed_);
}

Status OpenHandle::check() {
  const OpenFileState& state = *file_.state();
  if (std::exchange(errors_seen_, state.errors()) == state.errors()) return {};
  return state.last_error();
}

asio::awaitable<Status> OpenHandle::sync() {
  const Status status = co_await file_.state()->flush();
  const Status seen = check();
  co_return status.ok() ? seen : status;
}

asio::awaitable<Status> OpenHandle::close(bool wait) {
  KINTSUGI_ASSERT(!closed_);
  Status status;
  if (wait) status = co_await file_.state()->flush();
  const Status seen = check();
  if (status.ok()) status = seen;
  closed_ = true;
  file_.state()->close_one();
  co_return status;
}

}  // namespace kintsugi::client
