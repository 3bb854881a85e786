/* LLVM behind the lifter: passes, object code, linking.
 *
 * Design notes. A region has a context of its own, which is gone once there is object code, with a
 * module for its function and one for the loops that it calls: they are compiled differently. The
 * passes are chosen: the pipeline -O2 takes up to 1.4 times as long for code that is no faster on
 * what bench-jit runs, because most of what it looks for a compiler has removed from the RISC-V
 * code already. Objects are linked by LLJIT, whose memory lives as long as the program's code.
 * LLJIT rather than MCJIT: one instance takes any number of objects, and LLVM keeps it. */
#include "hpu/jit_llvm.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hpu/guard.h"

static const char passes[] =
    "function(sroa,early-cse,simplifycfg,instcombine,loop-mssa(licm),gvn,simplifycfg)";
/* Values instead of variables, and little more. */
static const char quick_passes[] = "function(sroa,early-cse,instsimplify)";
/* With a loop that vectors may be made of. */
static const char loop_passes[] =
    "function(sroa,early-cse,simplifycfg,instcombine,reassociate,loop-mssa(licm),gvn,simplifycfg,"
    "loop-vectorize,slp-vectorizer,instcombine,loop-unroll,instcombine,simplifycfg)";

/* There is one LLVM in a process, whoever asks for it. */
static struct jit_llvm loaded;
static char load_error[200];
static pthread_once_t load_once = PTHREAD_ONCE_INIT;

static void load(void) {
    void *library = dlopen("libLLVM-14.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libLLVM-14.so", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(load_error, sizeof load_error, "%.190s", dlerror());
        return;
    }
    const struct {
        const char *name;
        void *to;
    } functions[] = {
#define ROW(name) {"LLVM" #name, &loaded.name},
        LLVM_FUNCTIONS(ROW)
#undef ROW
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *found = dlsym(library, functions[i].name);
        memcpy(functions[i].to, &found, sizeof found);
        if (!found)
            snprintf(load_error, sizeof load_error, "libLLVM-14 has no %s", functions[i].name);
    }
    if (load_error[0])
        return;
    loaded.InitializeX86TargetInfo();
    loaded.InitializeX86Target();
    loaded.InitializeX86TargetMC();
    loaded.InitializeX86AsmPrinter();
    loaded.InitializeX86AsmParser();
    loaded.InitializeAArch64TargetInfo();
    loaded.InitializeAArch64Target();
    loaded.InitializeAArch64TargetMC();
    loaded.InitializeAArch64AsmPrinter();
    loaded.InitializeAArch64AsmParser();
}

static const struct jit_llvm *get_llvm(char *why, size_t room) {
    pthread_once(&load_once, load);
    if (!load_error[0])
        return &loaded;
    snprintf(why, room, "%s", load_error);
    return NULL;
}

bool jit_find_llvm(char *why, size_t room) {
    return get_llvm(why, room);
}

/* Kinds of object code: optimised, and whatever comes quickly. */
enum { GOOD, ANY, LEVELS };

/* Constants of generated code may come to lie anywhere in the process, and LLVM's linker does not
 * notice when they are too far away for 32 bits; so x86-64 code has their addresses in full.
 * Vectors are as long as the processor's: with 512 bits the sum over a packet takes 0.65 to 0.95 of
 * the time that it takes with 256 (bench-handlers), and compiling it 1 ms more at most. */
static LLVMTargetMachineRef make_target(const struct jit_llvm *v, const char *triple, int level,
                                        bool is_host) {
    LLVMTargetRef target;
    char *message = NULL;
    if (v->GetTargetFromTriple(triple, &target, &message)) {
        v->DisposeMessage(message);
        return NULL;
    }
    char *cpu = is_host ? v->GetHostCPUName() : NULL;
    char *features = is_host ? v->GetHostCPUFeatures() : NULL, all[4096];
    bool x86 = strncmp(triple, "x86_64", 6) == 0;
    snprintf(all, sizeof all, "%s%s", x86 ? "-prefer-256-bit," : "", features ? features : "");
    LLVMTargetMachineRef machine = v->CreateTargetMachine(
        target, triple, cpu ? cpu : "generic", all,
        level == GOOD ? LLVMCodeGenLevelLess : LLVMCodeGenLevelNone,
        x86 ? LLVMRelocStatic : LLVMRelocPIC, x86 ? LLVMCodeModelLarge : LLVMCodeModelDefault);
    if (is_host) {
        v->DisposeMessage(cpu);
        v->DisposeMessage(features);
    }
    return machine;
}

static bool is_good(const struct jit_llvm *v, LLVMErrorRef error) {
    if (error)
        v->ConsumeError(error);
    return !error;
}

/* Symbols around what guarded accesses and copies put into their sections (jit_guard.c,
 * jit_copy.c).
 */
static int name_section(char *text, size_t room, const char *name, const char *section) {
    return snprintf(text, room,
                    ".pushsection spin_%s,\"a\"\n.balign 4\n.globl %s_%s\n%s_%s:\n"
                    ".subsection 1\n.globl %s_%s_end\n%s_%s_end:\n.popsection\n",
                    section, name, section, name, section, name, section, name, section);
}

static void name_sections(const struct jit_llvm *v, LLVMModuleRef module, const char *name) {
    char text[600];
    int length = name_section(text, sizeof text, name, "guards");
    length += name_section(text + length, sizeof text - (size_t)length, name, "copies");
    v->SetModuleInlineAsm2(module, text, (size_t)length);
}

static LLVMModuleRef new_module(const struct jit_llvm *v, LLVMContextRef context, const char *name,
                                LLVMTargetMachineRef machine, const char *triple) {
    LLVMModuleRef module = v->ModuleCreateWithNameInContext(name, context);
    LLVMTargetDataRef layout = v->CreateTargetDataLayout(machine);
    v->SetModuleDataLayout(module, layout);
    v->DisposeTargetData(layout);
    v->SetTarget(module, triple);
    return module;
}

/* From here on LLVM leaves the function's instructions as they are, but for its registers. */
static void hurry(const struct jit_llvm *v, LLVMContextRef context, LLVMModuleRef module,
                  const char *name) {
    static const char *const names[] = {"noinline", "optnone"}; /* the one needs the other */
    for (int i = 0; i < 2; i++) {
        unsigned kind = v->GetEnumAttributeKindForName(names[i], strlen(names[i]));
        v->AddAttributeAtIndex(v->GetNamedFunction(module, name), LLVMAttributeFunctionIndex,
                               v->CreateEnumAttribute(context, kind, 0));
    }
}

static bool improve(const struct jit_llvm *v, LLVMModuleRef module, const char *with,
                    LLVMTargetMachineRef machine) {
    LLVMPassBuilderOptionsRef options = v->CreatePassBuilderOptions();
#ifndef NDEBUG
    if (v->VerifyModule(module, LLVMPrintMessageAction, NULL))
        abort();
#endif
    bool good = is_good(v, v->RunPasses(module, with, machine, options));
    v->DisposePassBuilderOptions(options);
    return good;
}

/* Has LLVM take what loops carry from iteration to iteration as it is: what it makes of additions
 * there for the sake of addresses (loop strength reduction) is no faster, x86 and ARM having an
 * index in theirs, and takes it up to a third of the time. */
static void hide_steps(const struct jit_llvm *v, LLVMContextRef context, LLVMModuleRef module) {
    LLVMBuilderRef b = v->CreateBuilderInContext(context);
    for (LLVMValueRef f = v->GetFirstFunction(module); f; f = v->GetNextFunction(f))
        for (LLVMBasicBlockRef at = v->GetFirstBasicBlock(f); at; at = v->GetNextBasicBlock(at)) {
            LLVMValueRef first = v->GetFirstInstruction(at);
            while (first && v->IsAPHINode(first))
                first = v->GetNextInstruction(first);
            v->PositionBuilderBefore(b, first);
            for (LLVMValueRef i = v->GetFirstInstruction(at); v->IsAPHINode(i);
                 i = v->GetNextInstruction(i)) {
                if (v->GetTypeKind(v->TypeOf(i)) != LLVMIntegerTypeKind)
                    continue;
                LLVMValueRef hidden = v->BuildFreeze(b, i, "");
                v->ReplaceAllUsesWith(i, hidden);
                v->SetOperand(hidden, 0, i);
            }
        }
    v->DisposeBuilder(b);
}

/* The same instruction once more, here. */
static LLVMValueRef repeat(const struct jit_llvm *v, LLVMBuilderRef b, LLVMValueRef instruction) {
    LLVMValueRef made = v->InstructionClone(instruction);
    v->InsertIntoBuilder(b, made);
    return made;
}

/* An address in the HPU, which a load or a store at `user` uses, is computed there. Returns it, or
 * NULL if it is another's, or stands there already. */
static LLVMValueRef bring_address(const struct jit_llvm *v, LLVMBuilderRef b, LLVMValueRef user,
                                  LLVMValueRef address) {
    LLVMValueRef cast = v->IsABitCastInst(address);
    LLVMValueRef place = v->IsAGetElementPtrInst(cast ? v->GetOperand(cast, 0) : address);
    if (!place || !v->IsAArgument(v->GetOperand(place, 0)) ||
        v->GetInstructionParent(place) == v->GetInstructionParent(user))
        return NULL;
    v->PositionBuilderBefore(b, user);
    place = repeat(v, b, place);
    if (!cast)
        return place;
    cast = repeat(v, b, cast);
    v->SetOperand(cast, 0, place);
    return cast;
}

/* What stays as long as the function runs (get_fixed of jit_lift.h) is loaded at `user`. */
static void bring_loads(const struct jit_llvm *v, LLVMBuilderRef b, LLVMValueRef user,
                        unsigned fixed) {
    for (int i = 0; i < v->GetNumOperands(user) && !v->IsAPHINode(user); i++) {
        LLVMValueRef load = v->IsALoadInst(v->GetOperand(user, (unsigned)i));
        if (!load || !v->GetMetadata(load, fixed) ||
            v->GetInstructionParent(load) == v->GetInstructionParent(user))
            continue;
        v->PositionBuilderBefore(b, user);
        LLVMValueRef near = repeat(v, b, load);
        LLVMValueRef address = bring_address(v, b, near, v->GetOperand(near, 0));
        if (address)
            v->SetOperand(near, 0, address);
        v->SetOperand(user, (unsigned)i, near);
    }
}

/* LLVM has found that all blocks use the same addresses of the HPU's registers, and computes them
 * once. Where instructions are translated one by one that fills the host's registers with addresses
 * that each load or store has room for itself, and the stack with what was loaded beforehand. */
static void bring_addresses(const struct jit_llvm *v, LLVMContextRef context,
                            LLVMValueRef function) {
    LLVMBuilderRef b = v->CreateBuilderInContext(context);
    unsigned fixed = v->GetMDKindIDInContext(context, "invariant.load", 14);
    for (LLVMBasicBlockRef at = v->GetFirstBasicBlock(function); at; at = v->GetNextBasicBlock(at))
        for (LLVMValueRef i = v->GetFirstInstruction(at); i; i = v->GetNextInstruction(i)) {
            unsigned operand = v->IsAStoreInst(i) ? 1 : 0;
            LLVMValueRef near = operand || v->IsALoadInst(i)
                                    ? bring_address(v, b, i, v->GetOperand(i, operand))
                                    : NULL;
            if (near)
                v->SetOperand(i, operand, near);
            bring_loads(v, b, i, fixed);
        }
    v->DisposeBuilder(b);
}

/* Branches that LLVM knows to go one way: a check that another has done before. */
static void go_straight(const struct jit_llvm *v, LLVMContextRef context, LLVMValueRef function) {
    LLVMBuilderRef b = v->CreateBuilderInContext(context);
    for (LLVMBasicBlockRef at = v->GetFirstBasicBlock(function); at;
         at = v->GetNextBasicBlock(at)) {
        LLVMValueRef last = v->GetBasicBlockTerminator(at);
        LLVMValueRef known = v->IsABranchInst(last) && v->IsConditional(last)
                                 ? v->IsAConstantInt(v->GetCondition(last))
                                 : NULL;
        if (!known)
            continue;
        unsigned way = v->ConstIntGetZExtValue(known) ? 0 : 1;
        if (v->IsAPHINode(v->GetFirstInstruction(v->GetSuccessor(last, !way))))
            continue; /* others lead there */
        v->PositionBuilderAtEnd(b, at);
        v->BuildBr(b, v->GetSuccessor(last, way));
        v->InstructionEraseFromParent(last);
    }
    v->DisposeBuilder(b);
}

/* NULL: LLVM cannot. */
static LLVMMemoryBufferRef emit(const struct jit_llvm *v, LLVMModuleRef module,
                                LLVMTargetMachineRef machine) {
    LLVMMemoryBufferRef object = NULL;
    char *message = NULL;
    if (!v->TargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object))
        return object;
    v->DisposeMessage(message);
    return NULL;
}

/* Objects of the region: its function, and its loops if they are functions of their own. */
enum { FUNCTION, LOOPS, OBJECTS };

/* False: LLVM cannot. */
static bool compile(const struct jit_llvm *v, LLVMTargetMachineRef *machine, const char *triple,
                    const char *name, struct jit_region *region, LLVMMemoryBufferRef *object) {
    LLVMContextRef context = v->ContextCreate();
    LLVMModuleRef function = new_module(v, context, name, machine[GOOD], triple);
    LLVMModuleRef loops = new_module(v, context, name, machine[GOOD], triple);
    object[FUNCTION] = object[LOOPS] = NULL;
    bool good = jit_lift(v, context, function, loops, triple, name, region);
    bool well = region->effort == JIT_WELL;
    const char *good_passes = region->has_short_loop ? loop_passes : passes;
    if (region->guarded || region->copies)
        name_sections(v, function, name);
    if (good && improve(v, function, well ? good_passes : quick_passes, machine[GOOD])) {
        hide_steps(v, context, function);
        if (region->effort <= JIT_HURRIEDLY) {
            go_straight(v, context, v->GetNamedFunction(function, name));
            bring_addresses(v, context, v->GetNamedFunction(function, name));
        }
        if (region->effort == JIT_HURRIEDLY)
            hurry(v, context, function, name);
        object[FUNCTION] = emit(v, function, machine[region->effort == JIT_QUICKLY ? ANY : GOOD]);
    }
    if (!well && region->loops && improve(v, loops, good_passes, machine[GOOD])) {
        hide_steps(v, context, loops);
        object[LOOPS] = emit(v, loops, machine[GOOD]);
    }
    v->DisposeModule(function);
    v->DisposeModule(loops);
    v->ContextDispose(context);
    return object[FUNCTION] && (object[LOOPS] || well || !region->loops);
}

#define NEAR ((uint64_t)1 << 30)

struct jit_linker {
    const struct jit_llvm *llvm;
    LLVMOrcLLJITRef lljit;
    LLVMTargetMachineRef machine[LEVELS];
    char *triple;
    unsigned functions;
    struct guard_sites **sites; /* of all functions that have some */
    size_t with_sites;
    struct jit_exit **exits; /* [functions]: their tables */
};

void jit_linker_free(struct jit_linker *linker) {
    if (!linker)
        return;
    const struct jit_llvm *v = linker->llvm;
    for (size_t i = 0; i < linker->with_sites; i++)
        guard_sites_remove(linker->sites[i]);
    free(linker->sites);
    for (unsigned i = 0; i < linker->functions; i++)
        free(linker->exits[i]);
    free(linker->exits);
    if (linker->lljit)
        is_good(v, v->OrcDisposeLLJIT(linker->lljit));
    for (int i = 0; i < LEVELS; i++)
        if (linker->machine[i])
            v->DisposeTargetMachine(linker->machine[i]);
    if (linker->triple)
        v->DisposeMessage(linker->triple);
    free(linker);
}

struct jit_linker *jit_linker_new(char *why, size_t room) {
    const struct jit_llvm *v = get_llvm(why, room);
    struct jit_linker *linker = v ? calloc(1, sizeof *linker) : NULL;
    if (!linker)
        return NULL;
    linker->llvm = v;
    linker->triple = v->GetDefaultTargetTriple();
    for (int i = 0; i < LEVELS; i++)
        linker->machine[i] = make_target(v, linker->triple, i, true);
    if (linker->machine[GOOD] && linker->machine[ANY] &&
        is_good(v, v->OrcCreateLLJIT(&linker->lljit, NULL)))
        return linker;
    snprintf(why, room, "LLVM has no code for %s", linker->triple);
    linker->lljit = NULL;
    jit_linker_free(linker);
    return NULL;
}

static uint64_t find_symbol(struct jit_linker *linker, const char *name, const char *end) {
    LLVMOrcExecutorAddress address = 0;
    char symbol[80];
    snprintf(symbol, sizeof symbol, "%s%s", name, end);
    return is_good(linker->llvm, linker->llvm->OrcLLJITLookup(linker->lljit, &address, symbol))
               ? address
               : 0;
}

/* From here on faults at the function's guarded accesses, or in its copies, are ours. */
static bool add_sites(struct jit_linker *linker, const char *name, bool are_copies) {
    uint64_t first = find_symbol(linker, name, are_copies ? "_copies" : "_guards");
    uint64_t end = find_symbol(linker, name, are_copies ? "_copies_end" : "_guards_end");
    uint64_t code = find_symbol(linker, name, "");
    if (first - code + NEAR >= 2 * NEAR) /* the distances in it do not fit */
        return false;
    size_t count = (size_t)(end - first) / sizeof(struct guard_site);
    struct guard_sites **more =
        realloc(linker->sites, (linker->with_sites + 1) * sizeof *linker->sites);
    if (more)
        linker->sites = more;
    if (!more || !first || !end)
        return false;
    more[linker->with_sites] = guard_sites_add((const void *)(uintptr_t)first, count, are_copies);
    return more[linker->with_sites] && ++linker->with_sites;
}

jit_function *jit_link(struct jit_linker *linker, struct jit_region *region, uint64_t *bytes) {
    const struct jit_llvm *v = linker->llvm;
    char name[40];
    snprintf(name, sizeof name, "region%u_%x", linker->functions, region->root);
    struct jit_exit **more =
        realloc(linker->exits, (linker->functions + 1) * sizeof *linker->exits);
    if (!more)
        return NULL;
    linker->exits = more;
    LLVMMemoryBufferRef object[OBJECTS];
    LLVMOrcJITDylibRef dylib = v->OrcLLJITGetMainJITDylib(linker->lljit);
    bool good = compile(v, linker->machine, linker->triple, name, region, object);
    linker->exits[linker->functions++] = region->exits;
    *bytes = 0;
    for (int i = 0; i < OBJECTS; i++)
        if (object[i]) {
            *bytes += v->GetBufferSize(object[i]);
            good &= is_good(v, v->OrcLLJITAddObjectFile(linker->lljit, dylib, object[i]));
        }
    if (!good || (region->guarded && !add_sites(linker, name, false)) ||
        (region->copies && !add_sites(linker, name, true)))
        return NULL;
    return (jit_function *)(uintptr_t)find_symbol(linker, name, "");
}

bool jit_object(const char *triple, struct jit_region *region, uint8_t **bytes, size_t *length) {
    char why[200];
    const struct jit_llvm *v = get_llvm(why, sizeof why);
    LLVMTargetMachineRef machine[LEVELS] = {NULL};
    LLVMMemoryBufferRef object[OBJECTS];
    *bytes = NULL;
    for (int i = 0; v && i < LEVELS; i++)
        machine[i] = make_target(v, triple, i, false);
    if (!machine[GOOD] || !machine[ANY])
        return false;
    compile(v, machine, triple, "region", region, object);
    free(region->exits);
    if (object[FUNCTION]) {
        *length = v->GetBufferSize(object[FUNCTION]);
        *bytes = malloc(*length);
        if (*bytes)
            memcpy(*bytes, v->GetBufferStart(object[FUNCTION]), *length);
    }
    for (int i = 0; i < OBJECTS; i++)
        if (object[i])
            v->DisposeMemoryBuffer(object[i]);
    for (int i = 0; i < LEVELS; i++)
        v->DisposeTargetMachine(machine[i]);
    return *bytes != NULL;
}
