#include "client/mount/kernel/operations/answers.h"

#include "client/mount/kernel/directory_buffer.h"
#include "common/base/errno_of.h"

namespace kintsugi::mount::serve {
namespace {

fuse_open_out to_fuse(const OpenAnswer& answer) {
  fuse_open_out out{};
  out.fh = answer.handle;
  out.open_flags = (answer.direct_io ? FOPEN_DIRECT_IO : 0u) | (answer.keep_cache ? FOPEN_KEEP_CACHE : 0u) |
                   (answer.parallel_direct_writes ? FOPEN_PARALLEL_DIRECT_WRITES : 0u);
  return out;
}

}  // namespace

int answer_entry(Request& request, const Result<Entry>& entry) {
  if (!entry) return errno_of(entry.error());
  if (entry->node == 0 && entry->entry_valid <= Lifetime{0}) return ENOENT;
  request.granted.node = entry->node;
  request.reply.put(mount::to_fuse(*entry));
  return 0;
}

int answer_attributes(Request& request, const Result<AttributesAnswer>& answer) {
  if (!answer) return errno_of(answer.error());
  const fuse_entry_out lifetime =
      mount::to_fuse(Entry{.attributes = answer->attributes, .attributes_valid = answer->valid});
  fuse_attr_out out{};
  out.attr_valid = lifetime.attr_valid;
  out.attr_valid_nsec = lifetime.attr_valid_nsec;
  out.attr = lifetime.attr;
  request.reply.put(out);
  return 0;
}

int answer_opened(Request& request, const Result<OpenAnswer>& opened, bool is_directory) {
  if (!opened) return errno_of(opened.error());
  request.granted = {
      .opened = true, .directory = is_directory, .opened_node = request.node, .handle = opened->handle};
  request.reply.put(to_fuse(*opened));
  return 0;
}

int answer_created(Request& request, const Result<CreateAnswer>& created) {
  if (!created) return errno_of(created.error());
  request.granted = {.node = created->entry.node,
                     .opened = true,
                     .opened_node = created->entry.node,
                     .handle = created->open.handle};
  request.reply.put(mount::to_fuse(created->entry));
  request.reply.put(to_fuse(created->open));
  return 0;
}

}  // namespace kintsugi::mount::serve
