#include "client/mount/kernel/request.h"

#include <algorithm>

#include "client/mount/kernel/arguments.h"
#include "client/mount/kernel/operations/operation.h"

namespace kintsugi::mount {
namespace {

/// Extensions stand at the end of a request, in units of 8 bytes: the caller's group that is also the parent's.
int parse_extensions(std::span<const std::byte> bytes, Caller& caller) {
  while (!bytes.empty()) {
    Arguments in(bytes);
    const auto head = in.take<fuse_ext_header>();
    if (in.error() != 0 || head.size < sizeof head || head.size > bytes.size()) return EINVAL;
    if (head.type == kExtGroups) {
      Arguments groups(bytes.subspan(sizeof head, head.size - sizeof head));
      const auto count = groups.take<uint32_t>();
      const auto first = count > 0 ? groups.take<uint32_t>() : 0;
      if (groups.error() != 0) return EINVAL;
      if (count > 0) caller.supplementary_group = first;
    }
    const size_t aligned = FUSE_REC_ALIGN(head.size);
    bytes = bytes.subspan(std::min(aligned, bytes.size()));
  }
  return 0;
}

}  // namespace

int parse_header(std::span<const std::byte> bytes, Request& request) {
  fuse_in_header head;
  if (bytes.size() < sizeof head) return kNoAnswerPossible;
  std::memcpy(&head, bytes.data(), sizeof head);
  request.answer_as = head.unique;
  request.id = head.unique & ~kUniqueResend;
  request.opcode = head.opcode;
  request.operation = operation_of(head.opcode);
  request.node = head.nodeid;
  request.caller = {.uid = head.uid,
                    .gid = head.gid,
                    .pid = head.pid,
                    .unique = request.id,
                    .resent = (head.unique & kUniqueResend) != 0,
                    .supplementary_group = {},
                    .interrupt = &request.interrupt};
  request.body = {};
  if (head.len != bytes.size()) return request.id == 0 ? kNoAnswerPossible : EIO;
  std::span<const std::byte> body = bytes.subspan(sizeof head);
  const size_t extensions = size_t{head.total_extlen} * 8;
  if (extensions > body.size()) return EIO;
  request.body = body.first(body.size() - extensions);
  return parse_extensions(body.last(extensions), request.caller);
}

}  // namespace kintsugi::mount
