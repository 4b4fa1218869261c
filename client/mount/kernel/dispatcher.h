/// From a request of the kernel to one operation of the file system, and its answer back to the kernel's form. No
/// descriptor and no clock is touched here: the simulator and the fuzzer drive it without a kernel.
#pragma once

#include "client/mount/kernel/arguments.h"
#include "client/mount/kernel/request.h"
#include "monitoring/sight/site.h"

namespace kintsugi::mount {

class Dispatcher {
 public:
  explicit Dispatcher(FileSystem& file_system) : file_system_(file_system) {}

  void agree(const Negotiated& negotiated) { negotiated_ = negotiated; }

  /// Checks the header of what was read, and fills the request except for its buffers. An errno: to be answered with that.
  /// kNoAnswerPossible: what was read is no request at all.
  static constexpr int kNoAnswerPossible = -1;
  static int parse_header(std::span<const std::byte> bytes, Request& request);

  /// True for the opcodes that serve() knows; others are answered with ENOSYS.
  static bool known(uint32_t opcode);
  /// The region of an opcode that serve() knows: what its requests are called in traces and diagnoses.
  static const sight::Site& site(uint32_t opcode);
  /// Runs the operation; fills request.reply and request.granted. Returns 0 or an errno.
  asio::awaitable<int> serve(Request& request);
  /// Gives back what `request` was granted, for its answer did not reach the kernel.
  asio::awaitable<void> undo(Request& request);

  /// FORGET and BATCH_FORGET, which have no answer.
  void forget(const Request& request);

 private:
  asio::awaitable<int> lookup(Request& request, Arguments in);
  asio::awaitable<int> get_attributes(Request& request, Arguments in);
  asio::awaitable<int> set_attributes(Request& request, Arguments in);
  asio::awaitable<int> read_link(Request& request, Arguments in);
  asio::awaitable<int> make_node(Request& request, Arguments in);
  asio::awaitable<int> make_directory(Request& request, Arguments in);
  asio::awaitable<int> symlink(Request& request, Arguments in);
  asio::awaitable<int> link(Request& request, Arguments in);
  asio::awaitable<int> remove(Request& request, Arguments in);
  asio::awaitable<int> rename(Request& request, Arguments in);
  asio::awaitable<int> open(Request& request, Arguments in);
  asio::awaitable<int> create(Request& request, Arguments in);
  asio::awaitable<int> read(Request& request, Arguments in);
  asio::awaitable<int> write(Request& request, Arguments in);
  asio::awaitable<int> flush(Request& request, Arguments in);
  asio::awaitable<int> release(Request& request, Arguments in);
  asio::awaitable<int> fsync(Request& request, Arguments in);
  asio::awaitable<int> read_directory(Request& request, Arguments in);
  asio::awaitable<int> space(Request& request, Arguments in);
  asio::awaitable<int> set_xattr(Request& request, Arguments in);
  asio::awaitable<int> get_xattr(Request& request, Arguments in);
  asio::awaitable<int> list_xattrs(Request& request, Arguments in);
  asio::awaitable<int> remove_xattr(Request& request, Arguments in);
  asio::awaitable<int> lock(Request& request, Arguments in);
  asio::awaitable<int> allocate(Request& request, Arguments in);
  asio::awaitable<int> seek(Request& request, Arguments in);
  asio::awaitable<int> copy_range(Request& request, Arguments in);

  int answer_entry(Request& request, const Result<Entry>& entry);
  int answer_attributes(Request& request, const Result<AttributesAnswer>& answer);
  int answer_xattr(Request& request, uint32_t room);

  FileSystem& file_system_;
  Negotiated negotiated_;
};

}  // namespace kintsugi::mount
