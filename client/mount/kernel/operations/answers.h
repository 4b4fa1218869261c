/// Answers that several operations give. Each returns 0 or the errno to be answered, and fills request.granted.
#pragma once

#include "client/mount/kernel/request.h"

namespace kintsugi::mount::serve {

/// The inode of a name, which counts as looked up.
int answer_entry(Request& request, const Result<Entry>& entry);
int answer_attributes(Request& request, const Result<AttributesAnswer>& answer);
/// A handle of the request's own inode.
int answer_opened(Request& request, const Result<OpenAnswer>& opened, bool is_directory);
/// The inode of a file that was made, and a handle of it.
int answer_created(Request& request, const Result<CreateAnswer>& created);

}  // namespace kintsugi::mount::serve
