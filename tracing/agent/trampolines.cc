// The way from a stub to the payload and back, see payload.h.
// The entry and a tail call are called from their sleds and come back; an exit is gone to and returns in place of its function.
// The stub has pushed the number of the function. The payload preserves all general registers but r11, and so do these: a
// function may have promised its callers the same (clang::preserve_most). r11 may hold the address of a tail call.
asm(R"(
  .text
  .globl kintsugi_trace_entry, kintsugi_trace_exit, kintsugi_trace_tail
  .type kintsugi_trace_entry, @function
  .type kintsugi_trace_exit, @function
  .type kintsugi_trace_tail, @function
  .p2align 5
kintsugi_trace_entry:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  push %rdi
  push %rsi
  .cfi_adjust_cfa_offset 16
  mov 16(%rsp), %edi
  lea 32(%rsp), %rsi
  call kintsugi_trace_entered
  pop %rsi
  pop %rdi
  lea 8(%rsp), %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size kintsugi_trace_entry, .-kintsugi_trace_entry
  .p2align 5
kintsugi_trace_tail:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  push %rdi
  push %rsi
  push %rdx
  push %r11
  .cfi_adjust_cfa_offset 32
  mov 32(%rsp), %edi
  lea 48(%rsp), %rsi
  mov $1, %edx
  call kintsugi_trace_left
  pop %r11
  pop %rdx
  pop %rsi
  pop %rdi
  lea 8(%rsp), %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size kintsugi_trace_tail, .-kintsugi_trace_tail
  .p2align 5
kintsugi_trace_exit:
  .cfi_startproc
  .cfi_def_cfa_offset 16
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  .cfi_adjust_cfa_offset 32
  mov 32(%rsp), %edi
  lea 40(%rsp), %rsi
  xor %edx, %edx
  mov %rax, %rcx
  call kintsugi_trace_left
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  lea 8(%rsp), %rsp
  .cfi_def_cfa_offset 8
  ret
  .cfi_endproc
  .size kintsugi_trace_exit, .-kintsugi_trace_exit
)");
